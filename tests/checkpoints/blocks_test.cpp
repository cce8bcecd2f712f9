// Values that span several blocks: transfer between CPU or device and file, and checksums on several threads.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "checkpoints/fixture.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/shard_checksums.h"
#include "checkpoints/format/verify.h"
#include "io/crc32c.h"
#include "kernels/threads.h"
#include "test_main/catch.h"
#include "test_main/world.h"

using namespace lt;
using namespace lt_test;
using namespace lt::checkpoint;

namespace {

std::vector<float> values_of(const std::string& name, Size count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (Size i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = value_of(name, kMaster, i);
  return values;
}

class Threads {
 public:
  explicit Threads(int count) : before_(kernels::threads()) { kernels::set_threads(count); }
  ~Threads() { kernels::set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace

TEST_CASE("blocks: what is saved from a device is what it holds", "[checkpoints]") {
  const TempFolder temp;
  ShardMap shards;
  for (const Size count :
       {Size{1}, block_elements(DType::f32), block_elements(DType::f32) + 1, 5 * block_elements(DType::f32) / 2}) {
    const std::string name = "w" + std::to_string(count);
    shards.parameters.push_back({name, {count}});
    // An empty range needs no tensor.
    shards.owned.push_back({name, kMaster, 0, 0, Tensor()});
    shards.owned.push_back({name, kMaster, 0, count, Tensor::from(values_of(name, count), {count}, test_device())});
  }
  constexpr Size kRows = 1100, kColumns = 1099;  // more than a block
  shards.parameters.push_back({"strided", {kColumns, kRows}});
  const Tensor matrix = Tensor::from(values_of("strided", kRows * kColumns), {kRows, kColumns}, test_device());
  shards.owned.push_back({"strided", kMaster, 0, kRows * kColumns, matrix.transposed(0, 1)});
  for (const StateRange& range : shards.owned) {
    if (range.begin == range.end) continue;
    const Tensor values = Tensor::zeros({range.end}, DType::f32, test_device());
    shards.needed.push_back({range.parameter, range.kind, range.begin, range.end, values});
  }

  const fs::path folder = save_alone(temp.path(), 3, shards);
  load(folder.string(), shards);
  for (const StateRange& range : shards.needed) {
    INFO(range.parameter);
    std::vector<float> expected = values_of(range.parameter, range.end);
    if (range.parameter == "strided") expected = matrix.transposed(0, 1).to_vector<float>();
    CHECK((range.values.to_vector<float>() == expected));
  }

  CHECK(save_alone(temp.path(), 3, shards) == folder);
  for (const StateRange& range : shards.owned) {
    if (range.begin == range.end) continue;
    INFO(range.parameter);
    ShardMap other = shards;
    std::vector<float> values = range.values.to_vector<float>();
    values.back() += 1;
    auto& changed = other.owned[static_cast<std::size_t>(&range - shards.owned.data())].values;
    changed = Tensor::from(values, {range.end}, test_device());
    CHECK_THROWS_WITH(save_alone(temp.path(), 3, other),
                      Catch::Matchers::ContainsSubstring(range.parameter) &&
                          Catch::Matchers::ContainsSubstring("expected the values of this run"));
  }
}

TEST_CASE("blocks: the ranges of a save lie on one device", "[checkpoints]") {
  if (test_device() == kCpu) return;
  const TempFolder temp;
  ShardMap shards{{{"w", {2}}}, {}, {}};
  shards.owned.push_back({"w", kMaster, 0, 1, Tensor::zeros({1}, DType::f32, test_device())});
  shards.owned.push_back({"w", kMaster, 1, 2, Tensor::zeros({1}, DType::f32)});
  CHECK_THROWS_WITH(save_alone(temp.path(), 3, shards),
                    Catch::Matchers::ContainsSubstring("master/w[1, 2): expected values on cuda"));
}

TEST_CASE("blocks: several threads find what one does", "[checkpoints]") {
  const TempFolder temp;
  std::vector<ParameterInfo> parameters;
  for (int p = 0; p < 80; ++p) parameters.push_back({"w" + std::to_string(p), {p + 1}});
  const fs::path folder = save_alone(temp.path(), 3, shards_of(parameters, 0, 1));
  const fs::path path = folder / shard_name(0);
  const std::vector<DatasetEntry> datasets = read_manifest(folder).files.at(0).datasets;
  const std::string whole = read_text(path);
  for (const int count : {1, 2, 3, 4, 16}) {
    INFO(count << " threads");
    const Threads threads(count);
    const FileChecksums sums = checksums_of(path, datasets);
    CHECK(sums.file == io::crc32c(0, whole.data(), whole.size()));
    REQUIRE(sums.blocks.size() == datasets.size());
    for (std::size_t d = 0; d < datasets.size(); ++d) CHECK(sums.blocks[d] == datasets[d].blocks);
  }

  const Threads threads(4);
  for (std::size_t d = 0; d < datasets.size(); d += 7) {  // 240 payloads, some for each thread
    std::string bytes = whole;
    bytes[static_cast<std::size_t>(datasets[d].offset)] ^= 4;
    write_text(path, bytes);
    const std::vector<std::string> problems = problems_of(folder, true);
    REQUIRE_FALSE(problems.empty());
    CHECK_THAT(problems[0], Catch::Matchers::ContainsSubstring(block_name(datasets[d], 0)));
  }
  write_text(path, whole);
  CHECK(problems_of(folder, true).empty());
}
