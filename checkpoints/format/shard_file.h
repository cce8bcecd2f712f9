// One rank's HDF5 file: written whole, made durable, then read back and compared.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoints/format/manifest.h"
#include "libtrain/tensor/shard_map.h"

namespace lt::checkpoint {

// The file's owner, stored as attributes for people who open the file with HDF5's own tools.
struct ShardOwner {
  int rank = 0, world_size = 1;
  Size step = 0;
};

// Writes `shards.owned` to a file in `folder`, syncs both, and returns the file's manifest entry. The entry's checksums
// are of the file on disk after the fsync, and equal the checksums of the values in memory.
FileEntry write_shard(const std::filesystem::path& folder, const ShardOwner& owner, const ShardMap& shards);

}  // namespace lt::checkpoint
