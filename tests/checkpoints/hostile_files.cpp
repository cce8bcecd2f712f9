// Files with right checksums that were not made here: the manifest vouches for its bytes, so what HDF5 would fetch from
// elsewhere, convert or decode must be refused all the same.
#include <hdf5.h>

#include <functional>

#include "checkpoints/fixture.h"
#include "core/crc32c.h"
#include "hdf5_handle.h"
#include "libtrain/error.h"
#include "manifest.h"
#include "shard_file.h"
#include "test_main/catch.h"
#include "verify.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr hsize_t kCount = 1000;

ShardMap one_parameter() {
  std::vector<float> values(kCount);
  for (hsize_t i = 0; i < kCount; ++i) values[i] = value_of("w", StateKind::master, static_cast<Size>(i));
  const Shape flat{static_cast<Size>(kCount)};
  const Size end = static_cast<Size>(kCount);
  return {{{"w", flat}},
          {{"w", StateKind::master, 0, end, Tensor::from(values, flat)}},
          {{"w", StateKind::master, 0, end, Tensor::zeros(flat, DType::f32)}}};
}

void write_plain(hid_t file, const char* path, hid_t type = H5T_IEEE_F32LE, hsize_t count = kCount,
                 const std::function<void(hid_t)>& change = {}) {
  const Hdf5Properties properties(LT_HDF5(H5Pcreate(H5P_DATASET_CREATE)));
  if (change) change(properties);
  const Hdf5Space space(LT_HDF5(H5Screate_simple(1, &count, nullptr)));
  const Hdf5Dataset dataset(LT_HDF5(H5Dcreate2(file, path, type, space, H5P_DEFAULT, properties, H5P_DEFAULT)));
  const std::vector<float> values(count, 1.0f);
  LT_HDF5(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
}

// A valid checkpoint whose file is replaced by one that `make` fills; the manifest then fits the new file. What a load
// says of it.
std::string error_with(const std::function<void(hid_t file, const fs::path& folder)>& make) {
  const TempFolder temp;
  const ShardMap shards = one_parameter();
  const fs::path folder = save_alone(temp.path(), 1, shards), path = folder / "rank-00000.h5";
  {
    const Hdf5Session session;
    Hdf5File file(LT_HDF5(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, file_access())));
    const Hdf5Group group(LT_HDF5(H5Gcreate2(file, "master", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
    make(file, folder);
  }
  Manifest manifest = read_manifest(folder);
  FileEntry& entry = manifest.files[0];
  std::string bytes = read_file(path);
  bytes.resize(std::max<std::size_t>(bytes.size(), 16384), '\0');  // room for the payload that the manifest claims
  write_file(path, bytes);
  entry.bytes = static_cast<Size>(bytes.size());
  entry.datasets[0].offset = 4096;
  const FileChecksums sums = checksums_of(path, entry.datasets);
  entry.crc = sums.file;
  entry.crc_metadata = sums.metadata;
  entry.datasets[0].blocks = sums.blocks[0];
  write_file(folder / "manifest.json", manifest_text(manifest));
  const auto problems = problems_of(folder, true);
  try {
    load(folder.string(), shards);
  } catch (const DataError& e) {
    return problems.size() == 1 && std::string(e.what()).ends_with(problems[0]) ? problems[0] : "problems differ";
  }
  return "none";
}

}  // namespace

TEST_CASE("hostile files: each is refused by name", "[checkpoints]") {
  CHECK_THAT(error_with([](hid_t file, const fs::path&) { write_plain(file, "/master/w"); }),
             ContainsSubstring("/master/w: offset: expected 4096, found"));
  CHECK_THAT(error_with([](hid_t, const fs::path&) {}), ContainsSubstring("H5Lget_info"));
  CHECK_THAT(error_with([](hid_t file, const fs::path&) { write_plain(file, "/master/w", H5T_IEEE_F64LE); }),
             ContainsSubstring("/master/w: type: expected little-endian f32"));
  CHECK_THAT(error_with([](hid_t file, const fs::path&) { write_plain(file, "/master/w", H5T_IEEE_F32BE); }),
             ContainsSubstring("/master/w: type: expected little-endian f32"));
  CHECK_THAT(error_with([](hid_t file, const fs::path&) { write_plain(file, "/master/w", H5T_IEEE_F32LE, 999); }),
             ContainsSubstring("/master/w: elements: expected 1000, found 999"));
  CHECK_THAT(error_with([](hid_t file, const fs::path&) {
               write_plain(file, "/master/w", H5T_IEEE_F32LE, kCount, [](hid_t properties) {
                 const hsize_t chunk = 100;
                 LT_HDF5(H5Pset_chunk(properties, 1, &chunk));
               });
             }),
             ContainsSubstring("/master/w: layout: expected contiguous"));
  CHECK_THAT(error_with([](hid_t file, const fs::path&) {
               write_plain(file, "/master/w", H5T_IEEE_F32LE, kCount, [](hid_t properties) {
                 const hsize_t chunk = 100;
                 LT_HDF5(H5Pset_chunk(properties, 1, &chunk));
                 LT_HDF5(H5Pset_deflate(properties, 1));
               });
             }),
             ContainsSubstring("/master/w: layout: expected contiguous"));
  CHECK_THAT(error_with([](hid_t file, const fs::path& folder) {
               write_plain(file, "/master/w", H5T_IEEE_F32LE, kCount, [&](hid_t properties) {
                 LT_HDF5(H5Pset_external(properties, (folder / "elsewhere").c_str(), 0, kCount * sizeof(float)));
               });
             }),
             ContainsSubstring("/master/w: external files: expected none"));
  CHECK_THAT(error_with([](hid_t file, const fs::path&) {
               write_plain(file, "/other");
               LT_HDF5(H5Lcreate_soft("/other", file, "/master/w", H5P_DEFAULT, H5P_DEFAULT));
             }),
             ContainsSubstring("/master/w: link type"));
  CHECK_THAT(error_with([](hid_t file, const fs::path&) {
               LT_HDF5(H5Lcreate_external("/etc/passwd", "/w", file, "/master/w", H5P_DEFAULT, H5P_DEFAULT));
             }),
             ContainsSubstring("/master/w: link type"));
}

TEST_CASE("hostile files: a file whose writer died after a flush is refused", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = one_parameter();
  const fs::path folder = save_alone(temp.path(), 1, shards);
  {
    const Hdf5Session session;
    Hdf5File file(LT_HDF5(H5Fcreate((temp.path() / "open.h5").c_str(), H5F_ACC_EXCL, H5P_DEFAULT, file_access())));
    write_plain(file, "/w");
    LT_HDF5(H5Fflush(file, H5F_SCOPE_GLOBAL));
    fs::copy(temp.path() / "open.h5", temp.path() / "as-left-by-a-dead-writer.h5");
    file.close();
  }
  CHECK_NOTHROW(ShardReader(temp.path(), "open.h5"));
  CHECK_THROWS_WITH(ShardReader(temp.path(), "as-left-by-a-dead-writer.h5"), ContainsSubstring("H5Fopen"));
}
