// Damage whose checksums fit: what somebody would make who knows the format.
#pragma once

#include "checkpoints/fixture.h"
#include "manifest.h"

namespace lt_test {

// The text with the checksum of its own bytes in the last field; `text` ends with that field as manifests do.
std::string with_repaired_checksum(std::string text);

// Writes `bytes` as rank 0's file and a manifest whose checksums and size fit it.
void write_repaired(const fs::path& folder, lt::checkpoint::Manifest manifest, const std::string& bytes);

}  // namespace lt_test
