// Gives damaged files matching checksums, as somebody who knows the format would.
#pragma once

#include "checkpoints/fixture.h"
#include "checkpoints/format/manifest.h"

namespace lt_test {

// Returns the text with the checksum of its own bytes in the last field. If `text` has no checksum field, returns it
// unchanged.
std::string with_repaired_checksum(std::string text);

// Writes `bytes` as rank 0's file, and `manifest` with that file's checksums and size.
void write_repaired(const fs::path& folder, lt::checkpoint::Manifest manifest, const std::string& bytes);

}  // namespace lt_test
