// Maps pages by touching them with four threads. One thread takes 13 s for 24 GB in pages of 4 KiB, 4 s in huge pages.
#include "device/host_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "libtrain/error.h"

namespace lt::device {
namespace {

// Calls touch(offset) for each page. madvise(MADV_POPULATE_WRITE) would hold the lock that every mmap() of the process
// needs.
template <class Touch>
void for_each_page(Size bytes, const Touch& touch) {
  constexpr Size kThreads = 4;
  const Size page = ::sysconf(_SC_PAGESIZE), share = (bytes / kThreads / page + 1) * page;
  std::vector<std::jthread> threads;
  for (Size begin = 0; begin < bytes; begin += share) {
    const auto touch_share = [=, &touch] {
      for (Size at = begin; at < std::min(begin + share, bytes); at += page) touch(at);
    };
    try {
      threads.emplace_back(touch_share);
    } catch (const std::system_error&) {  // no more threads
      touch_share();
    }
  }
}

}  // namespace

void* map_pages(Size bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw InternalError(
        "memory", "expected " + std::to_string(bytes) + " bytes of the host's memory, found: " + std::strerror(errno));
  }
  // Core dumps leave them out, and so do children, for which the kernel would copy pinned pages. A kernel without huge
  // pages refuses those.
  for (const int advice : {MADV_HUGEPAGE, MADV_DONTDUMP, MADV_DONTFORK}) {
    static_cast<void>(::madvise(memory, size, advice));
  }
  auto* const values = static_cast<volatile std::byte*>(memory);
  for_each_page(bytes, [&](Size at) { values[at] = std::byte{0}; });  // without a read, which would map a page of zeros
  return memory;
}

void unmap_pages(void* memory, Size bytes) { ::munmap(memory, static_cast<std::size_t>(bytes)); }

void make_present(void* memory, Size bytes) {
  auto* const values = static_cast<volatile std::byte*>(memory);
  for_each_page(bytes, [&](Size at) { values[at] = values[at]; });
}

}  // namespace lt::device
