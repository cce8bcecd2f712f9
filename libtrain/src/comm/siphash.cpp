// SipHash as in section 2 of the paper: a state of four words, two rounds for each eight bytes, four rounds at the end.
#include "comm/siphash.h"

#include <bit>
#include <cstddef>

namespace lt::comm {
namespace {

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1, v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0, v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1, v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2, v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }
  void take(std::uint64_t word) {
    v3 ^= word;
    round(), round();
    v0 ^= word;
  }
};

// Little-endian; at most eight bytes.
template <class Bytes>
std::uint64_t word_of(const Bytes* bytes, std::size_t count) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < count; ++i) {
    word |= std::uint64_t{static_cast<std::uint8_t>(bytes[i])} << (8 * i);
  }
  return word;
}

}  // namespace

std::uint64_t siphash(const SipKey& key, std::string_view text) {
  const std::uint64_t k0 = word_of(key.data(), 8), k1 = word_of(key.data() + 8, 8);
  SipState state{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
  const std::size_t whole = text.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) state.take(word_of(text.data() + at, 8));
  const std::uint64_t length = text.size() & 0xff;
  state.take(length << 56 | word_of(text.data() + whole, text.size() - whole));
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace lt::comm
