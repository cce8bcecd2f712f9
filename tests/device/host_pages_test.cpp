// Large blocks of host memory, and pinning them while a device is busy.
#include "device/host_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <future>
#include <vector>

#include "device/cuda.h"
#include "libtrain/device/device.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::device;

namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// The entries in pagemap of the pages from `memory` on; none if the kernel has no pagemap. Bit 63: mapped, 62: swapped,
// 56: not shared with other places.
std::vector<std::uint64_t> entries_of(const void* memory, Size pages) {
  std::vector<std::uint64_t> entries(static_cast<std::size_t>(pages));
  std::ifstream file("/proc/self/pagemap", std::ios::binary);
  file.seekg(static_cast<std::streamoff>(reinterpret_cast<std::uintptr_t>(memory) / page_bytes() * sizeof entries[0]));
  file.read(reinterpret_cast<char*>(entries.data()), static_cast<std::streamsize>(pages * sizeof entries[0]));
  if (!file) {
    WARN("skipped in part: no /proc/self/pagemap");
    entries.clear();
  }
  return entries;
}

bool is_present(std::uint64_t entry) { return entry >> 62 != 0; }
bool is_own(std::uint64_t entry) { return (entry >> 56 & 1) != 0; }

}  // namespace

TEST_CASE("host pages: zeros, all of them present", "[device]") {
  const Size pages = 5000, bytes = pages * static_cast<Size>(page_bytes()) - 100;
  auto* const values = static_cast<unsigned char*>(map_pages(bytes));
  const auto entries = entries_of(values, pages);
  CHECK(std::all_of(entries.begin(), entries.end(), [](auto entry) { return is_present(entry) && is_own(entry); }));
  CHECK(std::count(values, values + bytes, 0) == bytes);
  unmap_pages(values, bytes);
}

TEST_CASE("host pages: a file in memory is mapped by make_present()", "[device]") {
  const Size pages = 5000;
  const std::size_t bytes = pages * page_bytes();
  const int file = ::memfd_create("pages", 0);
  REQUIRE(::posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* const values = static_cast<unsigned char*>(memory);
  values[bytes / 2] = 77;
  const auto before = entries_of(memory, pages);
  CHECK(std::count_if(before.begin(), before.end(), is_present) < pages / 2);  // one, or the huge page around it
  make_present(memory, static_cast<Size>(bytes));
  const auto after = entries_of(memory, pages);
  CHECK(std::all_of(after.begin(), after.end(), is_present));
  CHECK(values[bytes / 2] == 77);
  CHECK(std::count(values, values + bytes, 0) == static_cast<Size>(bytes) - 1);
  ::munmap(memory, bytes);
  ::close(file);
}

TEST_CASE("host pages: the device's other work goes on while many are pinned", "[device]") {
  if (device::cuda::count() == 0) return;
  const Stream stream = Stream::compute({DeviceType::cuda, 0});
  const auto word = device::cuda::allocate_pinned(0, sizeof(std::uint32_t));
  const auto work = [&] {
    REQUIRE(device::cuda::write_word(static_cast<std::uint32_t*>(word.get()), 1, stream.cuda()));
    stream.synchronize();
  };
  work();
  auto pinned = std::async(std::launch::async, [] { return device::cuda::allocate_pinned(0, Size{4} << 30); });
  int done = 0;
  for (; pinned.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready; ++done) work();
  REQUIRE(pinned.get() != nullptr);
  CHECK(done > 8);  // cudaMallocHost() would let one or two through
}
