// What nobody reads on a load is verified all the same, in shares: after a load every byte has been checked.
#pragma once

#include <filesystem>
#include <vector>

#include "manifest.h"

namespace lt::checkpoint {

// The pieces of a checkpoint, counted through: of each file first what is no payload, which is one piece, then each
// block of each dataset.
Size piece_count(const Manifest& manifest);

// Checks this rank's share of the pieces that are not among `read` (empty: none is). Over all ranks the shares are all
// of them, each once. Throws DataError.
void verify_share(const std::filesystem::path& folder, const Manifest& manifest, const std::vector<bool>& read,
                  int rank, int size);

}  // namespace lt::checkpoint
