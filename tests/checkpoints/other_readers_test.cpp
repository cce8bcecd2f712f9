// Reads names, attributes and values of a shard file with only the HDF5 library, as other programs do.
#include <hdf5.h>

#include <algorithm>
#include <cstring>

#include "checkpoints/fixture.h"
#include "checkpoints/format/hdf5_handle.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;

namespace {

std::vector<Size> attribute(hid_t object, const char* name) {
  const Hdf5Attribute attribute(LT_HDF5(H5Aopen(object, name, H5P_DEFAULT)));
  const Hdf5Space space(LT_HDF5(H5Aget_space(attribute)));
  std::vector<Size> values(static_cast<std::size_t>(LT_HDF5(H5Sget_simple_extent_npoints(space))));
  if (!values.empty()) LT_HDF5(H5Aread(attribute, H5T_NATIVE_INT64, values.data()));
  return values;
}

}  // namespace

TEST_CASE("other readers: HDF5 finds groups, datasets, attributes and values", "[checkpoints]") {
  const TempFolder temp;
  std::vector<ParameterInfo> model = small_model();
  model.push_back({"blocks.0.attention.qkv.weight@9", {3}});  // the name of another parameter's second range
  const ShardMap shards = shards_of(model, 0, 2);
  ShardMap rest = shards_of(model, 1, 2);
  ShardMap both = shards;  // two ranges of one parameter in one file
  both.owned.insert(both.owned.end(), rest.owned.begin(), rest.owned.end());
  const fs::path folder = save_alone(temp.path(), 7, both);

  const Hdf5Session session;
  const Hdf5File file(LT_HDF5(H5Fopen((folder / "rank-00000.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)));
  CHECK(attribute(file, "version") == std::vector<Size>{1});
  CHECK(attribute(file, "step") == std::vector<Size>{7});
  CHECK(attribute(file, "rank") == std::vector<Size>{0});
  CHECK(attribute(file, "world_size") == std::vector<Size>{1});
  Size read = 0;
  std::vector<std::string> seen;
  for (const StateRange& range : both.owned) {
    const std::string name = range.kind + "/" + range.parameter;
    const bool again = std::count(seen.begin(), seen.end(), name) > 0;
    seen.push_back(name);
    const bool is_taken = range.parameter == "blocks.0.attention.qkv.weight";
    const std::string at = "@" + std::to_string(range.begin), path = !again ? name : name + at + (is_taken ? at : "");
    const Hdf5Dataset dataset(LT_HDF5(H5Dopen2(file, path.c_str(), H5P_DEFAULT)));
    CHECK(attribute(dataset, "begin") == std::vector<Size>{range.begin});
    CHECK(attribute(dataset, "end") == std::vector<Size>{range.end});
    for (const auto& [parameter, shape] : both.parameters) {
      if (parameter == range.parameter)
        CHECK(attribute(dataset, "shape") == std::vector<Size>(shape.begin(), shape.end()));
    }
    std::vector<float> values(static_cast<std::size_t>(range.end - range.begin));
    LT_HDF5(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    for (Size i = 0; i < range.values.elements(); ++i) {  // v is bf16, which the library converts
      CHECK(values[static_cast<std::size_t>(i)] == value_of(range.parameter, range.kind, range.begin + i));
    }
    read += range.end - range.begin;
  }
  CHECK(read == 3 * 137);
}
