// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012). Without the key the hash of a text can
// be neither computed nor guessed. Its forty lines replace a cryptography library.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lt::comm {

using SipKey = std::array<std::uint8_t, 16>;

std::uint64_t siphash(const SipKey& key, std::string_view text);

}  // namespace lt::comm
