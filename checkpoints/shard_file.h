// One rank's HDF5 file: written whole, made durable, then read back and compared.
#pragma once

#include <filesystem>
#include <vector>

#include "libtrain/tensor/shard_map.h"
#include "manifest.h"

namespace lt::checkpoint {

// Whose file it is; kept as attributes for a person who opens the file with HDF5's own tools.
struct ShardOwner {
  int rank = 0, world_size = 1;
  Size step = 0;
};

// Writes `shards.owned` to `folder`, which is synced as well, and returns its part of the manifest. The checksums are
// those of the file as it stands on the disk after the fsync, and equal those of the values in memory.
FileEntry write_shard(const std::filesystem::path& folder, const ShardOwner& owner, const ShardMap& shards);

}  // namespace lt::checkpoint
