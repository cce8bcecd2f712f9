// What computes the bits of a run: compared between ranks and before a resume, and described.
#include "run/algorithms.h"

#include <filesystem>
#include <string>
#include <vector>

#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "run/run_files.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"
#include "test_main/world.h"

using namespace lt::run;

namespace {

using Lines = std::vector<std::string>;

ComputedBy on(const std::string& gpu, const std::string& digest, const std::string& cudnn = "9.19.0") {
  return {{"gpu", gpu}, {"cublaslt", "13.1.1"}, {"cudnn", cudnn}, {"algorithms", digest}};
}

}  // namespace

TEST_CASE("algorithms: a resume names GPU, libraries and table that are others than in the checkpoint", "[train]") {
  const ComputedBy before = on("NVIDIA H200", "3f");
  CHECK(computation_changes(before, before).empty());
  CHECK(computation_changes(before, on("NVIDIA H100", "9a")) ==
        Lines{"GPU: NVIDIA H200 before, NVIDIA H100 now", "algorithms: 3f before, 9a now"});
  CHECK(computation_changes(before, on("NVIDIA H200", "none", "none")) ==
        Lines{"cuDNN: 9.19.0 before, none now", "algorithms: 3f before, none now"});
  CHECK(computation_changes(before, {}) == Lines{"GPU: NVIDIA H200 before, none now"});  // processors
  CHECK(computation_changes({{"gpu", "NVIDIA H200"}, {"later", "1"}}, before).empty());  // of another version
  CHECK(computation_changes({}, before).empty());  // processors, or an older checkpoint: unknown
}

TEST_CASE("algorithms: ranks on different GPUs are named, and all that computes is recorded", "[train]") {
  const ComputedBy h200 = on("NVIDIA H200", "3f"), h100 = on("NVIDIA H100", "9a");
  CHECK(merged({h200, h200}) == h200);
  CHECK(differences_of({h200, h200}).empty());
  CHECK(merged({h200, h100, h200, h100}) == on("NVIDIA H200, NVIDIA H100", "3f, 9a"));
  CHECK(differences_of({h200, h100, h200, h100, on("NVIDIA H100", "3f")}) ==
        "GPU: NVIDIA H200 on rank 0 and 1 more, NVIDIA H100 on rank 1 and 2 more; "
        "algorithms: 3f on rank 0 and 2 more, 9a on rank 1 and 1 more");
  CHECK(merged({{}, {}}).empty());
  CHECK(differences_of({{}, {}}).empty());
}

TEST_CASE("algorithms: a start describes its table", "[train]") {
  const ComputedBy computed_by = on("NVIDIA H200", "3f"), without = on("NVIDIA H200", "none");
  CHECK(description_of({.table = "text", .computed_by = computed_by}) ==
        "the library's table for this GPU, 3f, cuBLASLt 13.1.1");
  CHECK(description_of({.table = "text", .file = "h200.txt", .computed_by = computed_by}) ==
        "table h200.txt, 3f, cuBLASLt 13.1.1");
  CHECK(description_of({.computed_by = without}) == "no table for this GPU, cuBLASLt 13.1.1");
}

TEST_CASE("algorithms: the run's folder keeps the last start's table and what else computed", "[train]") {
  const lt_test::TempFolder temp;
  lt::Resolved resolved;
  resolved.run.dir = temp.text();
  const Algorithms with{.table = "text", .computed_by = on("NVIDIA H200", "3f")};
  write_run_files(resolved, {}, lt_test::world(), with, {});
  CHECK(temp.read("algorithms.txt") == "text");
  CHECK(computed_by_of_last_start(temp.text()) == with.computed_by);
  CHECK(threads_of_last_start(temp.text()) == lt_test::world().threads().count);
  write_run_files(resolved, {}, lt_test::world(), {}, {});
  CHECK_FALSE(std::filesystem::exists(temp / "algorithms.txt"));
  CHECK(computed_by_of_last_start(temp.text()).empty());
}

TEST_CASE("algorithms: a file that cannot be read is named, and processors need none", "[train]") {
  const lt_test::TempFolder temp;
  CHECK(read_algorithms(temp.write("table.txt", "text")) == "text");
  CHECK_THROWS_AS(read_algorithms(temp / "none.txt"), lt::DataError);
  CHECK_THROWS_WITH(
      read_algorithms(temp / "none.txt"),
      "train.algorithms " + (temp / "none.txt") + ": expected a table of algorithms, found: No such file or directory");
  CHECK_THROWS_WITH(
      read_algorithms(temp.write("empty.txt", "")),
      "train.algorithms " + (temp / "empty.txt") + ": expected a table of algorithms, found: an empty file");
  const Algorithms shared = share_algorithms("", lt::Group(), lt::kCpu);
  CHECK((shared.table.empty() && shared.computed_by.empty() && shared.differences.empty()));
}
