// Splits the verification of all bytes that no rank reads during a load, so that after a load every byte has been
// checked.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoints/format/manifest.h"

namespace lt::checkpoint {

// Returns the number of pieces of a checkpoint. Each file has one piece for everything but its payload, then one per
// block of each dataset.
Size piece_count(const Manifest& manifest);

// Checks this rank's share of the pieces that are not marked in `read`; an empty `read` marks none. The shares of all
// ranks cover all of these pieces, each once. Throws DataError.
void verify_share(const std::filesystem::path& folder, const Manifest& manifest, const std::vector<bool>& read,
                  int rank, int size);

}  // namespace lt::checkpoint
