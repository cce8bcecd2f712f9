// Copies in shared memory. A sealed copy is found again unchanged. An unsealed or changed copy is ignored.
#include "checkpoints/memory/memory_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "checkpoints/fixture.h"
#include "checkpoints/format/run_id.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;

namespace {

int interruptions = 0;  // of the next calls of posix_fallocate()

}  // namespace

// In place of the C library's.
extern "C" int posix_fallocate(int file, off_t offset, off_t bytes) {
  if (interruptions > 0) return --interruptions, EINTR;
  return ::fallocate(file, 0, offset, bytes) == 0 ? 0 : errno;
}

namespace {

// A run with its own id. Removes the run's copies at the end.
struct MemoryRun {
  ~MemoryRun() { remove_memory_copies(id); }
  std::string id = draw_run_id();
  CopyOwner owner{id, 1, 4};
  std::vector<CopyRange> layout = copy_layout(shards_of(small_model(), 0, 1).owned);
  fs::path file = memory_folder(id) / "rank-00001-a";
};

const auto never = [] { return false; };

bool is_seal_of(const MemoryCopy& copy, Size step) {
  const CopySeal seal = copy.sealed();
  return seal.step == step && seal.timeline == 77 && seal.samples == 10 * step && seal.loss_scale == 0.5;
}

}  // namespace

TEST_CASE("memory copy: a seal and its payload outlive the one that made them", "[checkpoints]") {
  MemoryRun run;
  make_memory_folder(run.id);
  const Size bytes = payload_bytes_of(run.layout);
  {
    MemoryCopy copy(run.file, run.owner, run.layout);
    CHECK(copy.sealed().step == 0);
    CHECK(is_memory_in_use(run.id));
    std::fill_n(copy.payload(), bytes, std::byte{7});
    copy.seal({5, 77, 50, 1000, 0.5, 2, 1});
    copy.add_checksum(never);
  }
  CHECK_FALSE(is_memory_in_use(run.id));
  struct stat status {};
  REQUIRE(::stat(run.file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto found = memory_copies(run.id);
  REQUIRE(found.size() == 1);
  const MemoryCopy& copy = *found.at("rank-00001-a");
  CHECK(is_seal_of(copy, 5));
  CHECK(to_text(seal_of(to_text(copy.sealed()))) == to_text(copy.sealed()));
  CHECK(copy.owner() == run.owner);
  CHECK(to_text(copy.layout()) == to_text(run.layout));
  CHECK(copy.payload_bytes() == bytes);
  CHECK(std::all_of(copy.payload(), copy.payload() + bytes, [](std::byte b) { return b == std::byte{7}; }));
  CHECK(copy.is_as_sealed());
  CHECK(memory_copies(draw_run_id()).empty());

  // The same layout reuses the file; another layout gets a new file.
  CHECK(is_seal_of(MemoryCopy(run.file, run.owner, run.layout), 5));
  run.layout.pop_back();
  CHECK(MemoryCopy(run.file, run.owner, run.layout).sealed().step == 0);
  CHECK(remove_memory_copies(run.id) >= bytes / 2);
  CHECK(memory_copies(run.id).empty());
}

TEST_CASE("memory copy: what changed since the checksum is found; without one the seal counts", "[checkpoints]") {
  const MemoryRun run;
  make_memory_folder(run.id);
  MemoryCopy copy(run.file, run.owner, run.layout);
  copy.seal({5, 77, 50, 0, 0.5});
  CHECK(copy.is_as_sealed());
  copy.add_checksum([] { return true; });  // gives up
  copy.payload()[100] ^= std::byte{4};
  CHECK(copy.is_as_sealed());
  copy.add_checksum(never);
  CHECK(copy.is_as_sealed());
  copy.payload()[100] ^= std::byte{4};
  CHECK_FALSE(copy.is_as_sealed());
  // A restart from an earlier step repeats this step.
  copy.unseal();
  CHECK(copy.sealed().step == 0);
  CHECK_FALSE(copy.is_as_sealed());
  copy.seal({5, 77, 50, 0, 0.5});
  CHECK(copy.is_as_sealed());
  copy.add_checksum(never);
  CHECK(copy.is_as_sealed());
}

TEST_CASE("memory copy: the program's state is kept with the payload, and its damage is found", "[checkpoints]") {
  const MemoryRun run;
  make_memory_folder(run.id);
  const std::string state(9000, 's');
  {
    MemoryCopy copy(run.file, run.owner, run.layout);
    std::fill_n(copy.payload(), payload_bytes_of(run.layout), std::byte{7});
    copy.seal({5, 77, 50, 0, 0.5}, state);
    CHECK(copy.state() == state);
  }
  const auto last_payload_byte = [](const MemoryCopy& copy) { return copy.payload()[copy.payload_bytes() - 1]; };
  {
    const MemoryCopy reused(run.file, run.owner, run.layout);
    CHECK(reused.state() == state);
    CHECK(last_payload_byte(reused) == std::byte{7});
  }
  const auto found = MemoryCopy::open(run.file);
  REQUIRE(found != nullptr);
  CHECK(found->state() == state);
  CHECK(found->is_as_sealed());
  std::string whole = lt_test::read_text(run.file);
  whole[whole.rfind('s')] = 't';
  std::fstream(run.file, std::ios::in | std::ios::out | std::ios::binary) << whole;
  CHECK_FALSE(found->is_as_sealed());
  CHECK_THROWS_AS(found->state(), DataError);
  fs::resize_file(run.file, whole.size() - 1);
  CHECK_FALSE(found->is_as_sealed());

  MemoryCopy again(run.file, run.owner, run.layout);
  again.unseal();
  again.seal({6, 77, 60, 0, 0.5});
  CHECK(again.state().empty());
  CHECK(again.is_as_sealed());
}

TEST_CASE("memory copy: foreign and damaged files do not count as copies", "[checkpoints]") {
  const MemoryRun run;
  make_memory_folder(run.id);
  { MemoryCopy(run.file, run.owner, run.layout).seal({5, 77, 50, 0, 0.5}); }
  fs::create_symlink(run.file, memory_folder(run.id) / "link");
  std::ofstream(memory_folder(run.id) / "short") << "libtrain memory";
  std::ofstream(memory_folder(run.id) / "other") << std::string(10000, 'x');
  CHECK(memory_copies(run.id).size() == 1);
  const auto write = [&](std::streamoff at, const std::string& bytes) {
    std::fstream(run.file, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(at)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  std::string whole(8192, 0);
  std::ifstream(run.file, std::ios::binary).read(whole.data(), 8192);
  // Sets one word of the header after the other to a huge value. A copy that is still accepted has a valid layout.
  int taken = 0;
  for (std::size_t at = 0; at < 160; at += 8) {
    write(static_cast<std::streamoff>(at), std::string(8, '\x7f'));
    for (const auto& [name, copy] : memory_copies(run.id)) {
      for (const CopyRange& range : copy->layout()) CHECK(range.offset + range.bytes() <= copy->payload_bytes());
      ++taken;
    }
    write(0, whole);
  }
  CHECK(taken > 0);  // a changed seal or checksum leaves the layout valid
  write(4096, "master f32 0 99999999999 0 w\n");
  CHECK(memory_copies(run.id).empty());
}

TEST_CASE("memory copy: a signal while its memory is taken is no failure", "[checkpoints]") {
  const MemoryRun run;
  make_memory_folder(run.id);
  interruptions = 2;
  const MemoryCopy copy(run.file, run.owner, run.layout);
  CHECK(interruptions == 0);
}
