// Runs that share a checkpoints folder. A run finds, keeps and removes only its own checkpoints, and one process at a
// time writes to the folder.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "checkpoints/fixture.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/folder_lock.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/verify.h"
#include "io/descriptor.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/failing_flock.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string kOther = "20240101T000000Z-0000000000000001";

}  // namespace

TEST_CASE("runs: the newest of a run is found among those of others", "[checkpoints]") {
  const TempFolder temp;
  const fs::path mine = save_by(kRun, temp.path(), 2);
  const fs::path other = save_by(kOther, temp.path(), 30);
  CHECK(find_newest(temp.text(), kAnyRun, nullptr, true) == other.string());
  CHECK(find_newest(temp.text(), {kRun}, nullptr, true) == mine.string());
  CHECK(find_newest(temp.text(), {kOther}, nullptr, true) == other.string());
  CHECK(!find_newest(temp.text(), {"another"}, nullptr, true));
  CHECK(find_other(temp.text(), {kRun})->run == kOther);
  CHECK(find_other(temp.text(), {kOther})->path == mine.string());
  CHECK(!find_other(temp.text(), kAnyRun));
}

TEST_CASE("runs: a save beside another run's checkpoint is refused before anything is written", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  save_by(kOther, temp.path(), 30);
  const auto before = names_in(temp.path());
  try {
    save_alone(temp.path(), 6, shards);
    CHECK(false);
  } catch (const UsageError& e) {
    CHECK_THAT(e.what(), ContainsSubstring(kRun));
    CHECK_THAT(e.what(), ContainsSubstring("found step-00000030 of run " + kOther));
  }
  CHECK(names_in(temp.path()) == before);
  fs::resize_file(temp.path() / "step-00000030" / "rank-00000.h5", 5);  // a damaged checkpoint belongs to no run
  CHECK(problems_of(save_alone(temp.path(), 6, shards), true).empty());
}

TEST_CASE("runs: a state without an id, or with one that is no part of a name, is refused", "[checkpoints]") {
  const TempFolder temp;
  for (const char* id : {"", "../up", "a b"}) {
    RunState state = state_at(1);
    state.run = id;
    CHECK_THROWS_AS(save(temp.text(), shards_of(small_model(), 0, 1), state, Group()), UsageError);
  }
  CHECK(names_in(temp.path()).empty());
}

TEST_CASE("runs: one process at a time has a folder, and others wait for it", "[checkpoints]") {
  const TempFolder temp;
  const auto lock = try_lock_folder(temp.path());
  REQUIRE((lock && lock->use_count() > 0));
  CHECK(try_lock_folder(temp.path()));  // this process already holds the lock
  // The lock treats a newly opened descriptor like another process.
  const auto taken_elsewhere = [&] {
    const int fd = ::open(temp.path().c_str(), O_RDONLY | O_DIRECTORY);
    const bool taken = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
    ::close(fd);
    return taken;
  };
  CHECK(taken_elsewhere());
}

TEST_CASE("runs: a file system without locks is written to without one", "[checkpoints]") {
  const TempFolder temp;
  for (const int error : {ENOLCK, EOPNOTSUPP, 524}) {
    error_of_flock = error;
    const auto lock = try_lock_folder(temp.path(), LockOn::folder_and_file);
    CHECK((lock && *lock == nullptr));
  }
  error_of_flock = EIO;
  CHECK_THROWS_WITH(try_lock_folder(temp.path()), ContainsSubstring("cannot be locked: Input/output error"));
  error_of_flock = 0;
}

TEST_CASE("runs: a save waits for the folder until another process lets go", "[checkpoints]") {
  const TempFolder temp;
  const int fd = ::open(temp.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(fd, LOCK_EX) == 0);
  CHECK(!try_lock_folder(temp.path()));
  CHECK_THROWS_WITH(lock_folder(temp.path(), std::chrono::milliseconds(0)),
                    ContainsSubstring("another process writes to it"));
  CHECK(names_in(temp.path()).empty());
  std::atomic<bool> is_free{false};
  const std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    is_free = true;
    ::close(fd);
  });
  CHECK(fs::exists(save_alone(temp.path(), 1, shards_of(small_model(), 0, 1))));
  CHECK(is_free);
  CHECK(try_lock_folder(temp.path()));  // the save released the lock
}

TEST_CASE("runs: a run's folder is locked on a file too, which other hosts see", "[checkpoints]") {
  const TempFolder temp;
  const auto take = [&] { return try_lock_folder(temp.path(), LockOn::folder_and_file); };
  const auto locked_elsewhere = [](const fs::path& path, int flags) {
    io::Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0644));
    REQUIRE(::flock(file.get(), LOCK_EX) == 0);
    return file;
  };
  {
    const io::Descriptor other = locked_elsewhere(temp / kLockName, O_RDWR | O_CREAT);
    CHECK(!take());
    // Who waits for a lock whose file is removed has the lock of the new file.
    fs::remove(temp / kLockName);
    const auto lock = take();
    CHECK((lock && *lock != nullptr && fs::exists(temp / kLockName)));
  }
  CHECK(fs::is_empty(temp.path()));
  temp.write("a", "");
  CHECK(take());
  CHECK(fs::exists(temp / kLockName));
}

TEST_CASE("runs: the file of a lock that another process has made anew is not removed", "[checkpoints]") {
  const TempFolder temp;
  const fs::path folder = temp.path() / "run", aside = temp.path() / "aside";
  fs::create_directory(folder);
  auto lock = try_lock_folder(folder, LockOn::folder_and_file);
  REQUIRE((lock && *lock != nullptr));
  fs::rename(folder, aside);
  fs::create_directory(folder);
  std::ofstream(folder / kLockName) << "";
  lock.reset();
  CHECK(fs::exists(folder / kLockName));
}

TEST_CASE("runs: a folder that cannot be looked at is not taken for one without checkpoints", "[checkpoints]") {
  const TempFolder temp;
  fs::create_symlink("loop", temp / "loop");  // "Too many levels of symbolic links", also for root
  for (const std::string& path : {temp / "loop", temp / "loop/checkpoints"}) {
    CHECK_THROWS_WITH(candidates(path, {kRun}), path + ": cannot be looked at: Too many levels of symbolic links");
    CHECK_THROWS_AS(candidates(path, kAnyRun), DataError);
  }
  CHECK(candidates(temp / "none", {kRun}).empty());
}
