// Damage with matching checksums, as made by somebody who knows the format.
#pragma once

#include "checkpoints/fixture.h"
#include "manifest.h"

namespace lt_test {

// Returns the text with the checksum of its own bytes in the last field; `text` must end with that field, as manifests
// do.
std::string with_repaired_checksum(std::string text);

// Writes `bytes` as rank 0's file, and a manifest with its checksums and size.
void write_repaired(const fs::path& folder, lt::checkpoint::Manifest manifest, const std::string& bytes);

}  // namespace lt_test
