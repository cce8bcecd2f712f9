// Token files, written.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/pending_file.h"

namespace lt {

// The whole file, header and tokens. Throws DataError where the count does not fit in the header.
void write_tokens(PendingFile& file, const std::string& path, std::span<const std::uint32_t> tokens);

}  // namespace lt
