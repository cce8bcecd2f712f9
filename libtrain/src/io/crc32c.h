// CRC32C (Castagnoli; RFC 3720, appendix B.4), the checksum of every byte of a checkpoint and of event files. With the
// processor's instruction where it has one, with a table elsewhere; both give the same values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lt {

// The checksum of some bytes with checksum `before` (0: none) followed by `bytes` bytes at `data`.
std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes);
// The same without the processor's instruction.
std::uint32_t crc32c_portable(std::uint32_t before, const void* data, std::size_t bytes);
// The checksum of a || b from those of a and b.
std::uint32_t crc32c_concat(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b);

// Eight lower-case hexadecimal digits, as manifests have it.
std::string crc_text(std::uint32_t crc);

}  // namespace lt
