// CRC32C (Castagnoli; RFC 3720, appendix B.4), the checksum that covers every byte of checkpoints and event files. Uses
// the processor's CRC instruction if it has one, else a table; both give the same values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lt::io {

// Returns the checksum of a sequence with checksum `before` (0 if empty), followed by `bytes` bytes at `data`.
std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes);
// Like crc32c(), but always uses the table.
std::uint32_t crc32c_portable(std::uint32_t before, const void* data, std::size_t bytes);
// Returns the checksum of the concatenation a || b, given the checksums of a and b.
std::uint32_t crc32c_concat(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b);

// Eight lower-case hexadecimal digits, as in manifests.
std::string crc_text(std::uint32_t crc);

}  // namespace lt::io
