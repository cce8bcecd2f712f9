// One rank's HDF5 file: written whole, made durable, then read back and compared; opened defensively to read parts.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "files.h"
#include "hdf5_handle.h"
#include "libtrain/shard_map.h"
#include "manifest.h"

namespace lt::checkpoint {

// Whose file it is; kept as attributes for a person who opens the file with HDF5's own tools.
struct ShardOwner {
  int rank = 0, world_size = 1;
  Size step = 0;
};

// f32 values on the host: the tensor's own memory, or `staged` where they are elsewhere.
const float* host_values(const Tensor& values, std::vector<float>& staged);

// Writes `shards.owned` to `folder`, which is synced as well, and returns its part of the manifest. The checksums are
// those of the file as it stands on the disk after the fsync, and equal those of the values in memory.
FileEntry write_shard(const std::filesystem::path& folder, const ShardOwner& owner, const ShardMap& shards);

// Reads parts of one file. Holds the HDF5 library while it lives.
class ShardReader {
 public:
  // Throws DataError where the file is missing or differs in size or metadata from the manifest: HDF5, which does not
  // survive every damage, is handed nothing but what was written.
  ShardReader(const std::filesystem::path& folder, const FileEntry& file);
  // A file that was just written. Throws DataError where HDF5 cannot open it.
  ShardReader(const std::filesystem::path& folder, const std::string& name);

  Size bytes() const { return bytes_; }
  // The byte offset of the payload as HDF5 has it. Throws DataError unless the dataset is a plain one of
  // end - begin contiguous little-endian f32 inside this file, without filters, reached without a soft or external
  // link.
  Size locate(const DatasetEntry& dataset) const;
  // Throws DataError where locate() differs from the manifest.
  void check_location(const DatasetEntry& dataset) const;
  // out[0..) = elements [begin, end) of the parameter, which the dataset holds. Checks the blocks that it touches.
  void read(const DatasetEntry& dataset, Size begin, Size end, float* out);

 private:
  std::string name_;
  Hdf5Session session_;
  Descriptor descriptor_;
  Size bytes_;
  Hdf5File file_;
  std::vector<float> block_;
};

// Checksums of a file as it stands.
struct FileChecksums {
  std::uint32_t file = 0;
  std::uint32_t metadata = 0;
  std::vector<std::vector<std::uint32_t>> blocks;  // in the order of the datasets given
};
// In one pass over the file. Throws DataError where payloads overlap or pass its end.
FileChecksums checksums_of(const std::filesystem::path& file, const std::vector<DatasetEntry>& datasets);
// FileChecksums::metadata alone; reads nothing else.
std::uint32_t metadata_checksum_of(const std::filesystem::path& file, const std::vector<DatasetEntry>& datasets);

// Elements of block `block` of a dataset, "master/a[0, 1048576): block 0".
std::string block_name(const DatasetEntry& dataset, std::size_t block);

}  // namespace lt::checkpoint
