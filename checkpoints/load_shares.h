// What nobody reads on a load is verified all the same, in shares: after a load every byte has been checked.
#pragma once

#include <filesystem>
#include <set>

#include "manifest.h"

namespace lt::checkpoint {

// Checks this rank's share of what is no payload and of the payloads whose kinds are not among `loaded`. Over all ranks
// the shares are all of it, each once. Throws DataError.
void verify_share(const std::filesystem::path& folder, const Manifest& manifest, const std::set<StateKind>& loaded,
                  int rank, int size);

}  // namespace lt::checkpoint
