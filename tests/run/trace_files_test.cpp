// Traces of many ranks: rank 0 receives them in order and in bounded pieces, and writes a file that Chrome can read.
#include "run/trace_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/whole_file.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"
#include "test_main/world.h"

using namespace lt;
using namespace lt::run;

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

std::string text_of(int rank) {
  const std::size_t sizes[] = {5, kMebibyte, 2 * kMebibyte + 7};
  return std::string(sizes[rank % 3], static_cast<char>('a' + rank));
}

}  // namespace

TEST_CASE("trace files: rank 0 gets each rank's events in pieces of at most a mebibyte", "[train]") {
  const Group& group = lt_test::world().group();
  std::vector<std::string> all(static_cast<std::size_t>(group.size()));
  std::size_t largest = 0;
  int last = 0;
  gather_in_pieces(group, text_of(group.rank()), [&](int rank, const std::string& piece) {
    CHECK(rank >= last);
    last = rank;
    largest = std::max(largest, piece.size());
    all[static_cast<std::size_t>(rank)] += piece;
  });
  for (int rank = 0; rank < group.size(); ++rank) {
    CHECK((all[static_cast<std::size_t>(rank)] == (group.rank() == 0 ? text_of(rank) : "")));
  }
  CHECK(largest <= kMebibyte);
}

TEST_CASE("trace files: a file of each rank and one of all", "[train]") {
  if (lt_test::world().rank() != 0) return;
  const lt_test::TempFolder folder;
  recorder::RunLog log;
  log.open(folder.text());
  const auto events = [](const std::string& path) {
    return nlohmann::json::parse(io::read_whole_file("record", path))["traceEvents"].get<std::vector<int>>();
  };
  for (const int ranks : {3, 2}) {
    TraceFiles files(log);
    for (int rank = 0; rank < ranks; ++rank) {
      files.add(rank, std::to_string(rank + 1));
      files.add(rank, "0," + std::to_string(rank));
    }
    CHECK(files.commit() == folder / "trace/all.json");
    CHECK(events(folder / "trace/rank-1.json") == std::vector<int>{20, 1});
    CHECK(std::filesystem::exists(folder / "trace/rank-2.json") == (ranks == 3));
  }
  CHECK(events(folder / "trace/all.json") == std::vector<int>{10, 0, 20, 1});
  CHECK(events(folder / "trace/old-1/all.json") == std::vector<int>{10, 0, 20, 1, 30, 2});
  CHECK(events(folder / "trace/old-1/rank-2.json") == std::vector<int>{30, 2});
  CHECK_FALSE(std::filesystem::exists(folder / "trace/old-2"));
  TraceFiles third(log);
  CHECK(events(folder / "trace/old-2/rank-1.json") == std::vector<int>{20, 1});

  TraceFiles broken(log);
  std::filesystem::remove_all(folder.path());
  broken.add(0, "1");
  broken.add(1, "2");
  CHECK_THROWS_AS(broken.commit(), DataError);
}
