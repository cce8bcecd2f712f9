// Writes token files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/pending_file.h"

namespace lt {

// Writes the header and all tokens. Throws DataError if the count does not fit in the header.
void write_tokens(PendingFile& file, const std::string& path, std::span<const std::uint32_t> tokens);

}  // namespace lt
