// If a write fails at any byte, the save throws and commits nothing. Earlier checkpoints survive this and a killed
// writer.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "checkpoints/fixture.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/verify.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/resource_limit.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;

using Strings = std::vector<std::string>;

namespace {

// Has 20 to 60 KiB of values per file, so that the limit hits metadata, payload and the manifest in turn.
std::vector<ParameterInfo> medium_model() {
  auto model = small_model();
  model.push_back({"ffn", {70, 50}});
  return model;
}

}  // namespace

TEST_CASE("full disk: a save fails whole at every size of the disk", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(medium_model(), 0, 1);
  const fs::path older = save_alone(temp.path(), 1, shards);
  const auto file_bytes = fs::file_size(older / "rank-00000.h5");
  const std::size_t open_files = names_in("/proc/self/fd").size();
  int failed = 0, succeeded = 0;
  for (rlim_t limit = 0; limit < file_bytes + 2000; limit += 997) {
    std::string error;
    {
      const FileSizeLimit full(limit);
      try {
        save_alone(temp.path(), 2, shards);
      } catch (const DataError& e) {
        error = e.what();
      }
    }
    INFO("limit " << limit << " of " << file_bytes << " bytes: " << error);
    CHECK(problems_of(older, true).empty());
    if (error.empty()) {
      CHECK(limit >= file_bytes);
      CHECK(problems_of(temp.path() / "step-00000002", true).empty());
      fs::remove_all(temp.path() / "step-00000002");
      ++succeeded;
    } else {
      CHECK(limit < file_bytes);
      CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000001"});
      CHECK(find_newest(temp.text(), kAnyRun, nullptr, true) == older.string());
      ++failed;
    }
  }
  CHECK(names_in("/proc/self/fd").size() == open_files);  // HDF5 keeps no half-open file
  CHECK(failed > 20);
  CHECK(succeeded > 0);
}

TEST_CASE("full disk: a killed writer leaves the older checkpoint, the next save clears up", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(medium_model(), 0, 1);
  const fs::path older = save_alone(temp.path(), 1, shards);
  const auto file_bytes = fs::file_size(older / "rank-00000.h5");
  const pid_t child = fork();
  if (child == 0) {
    const ResourceLimit no_core(RLIMIT_CORE, 0);
    const FileSizeLimit killing(file_bytes / 2, SIG_DFL);
    save_alone(temp.path(), 2, shards);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGXFSZ);
  const Strings names = names_in(temp.path());
  REQUIRE(names.size() == 3);
  CHECK(names[2].starts_with("step-00000002.tmp-"));
  Strings notes;
  CHECK(find_newest(temp.text(), kAnyRun, &notes, true) == older.string());
  CHECK(notes.empty());

  CHECK(problems_of(save_alone(temp.path(), 2, shards), true).empty());
  CHECK(names_in(temp.path()) == Strings{"LATEST", "step-00000001", "step-00000002"});
}
