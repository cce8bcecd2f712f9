// Computes and compares the proofs of a greeting.
#include "comm/tcp_greeting.h"

#include <bit>
#include <string>

namespace lt {

static_assert(std::endian::native == std::endian::little, "numbers travel as they stand in memory");

std::uint64_t proof_of(Speaker speaker, const MeetingToken& token, const Hello& hello, const Nonce& answer) {
  std::string text;
  text.append(reinterpret_cast<const char*>(&speaker), sizeof speaker);
  text.append(reinterpret_cast<const char*>(&hello), sizeof hello);
  text.append(reinterpret_cast<const char*>(answer.data()), answer.size());
  return siphash(token, text);
}

bool is_same_proof(std::uint64_t a, std::uint64_t b) {
  volatile std::uint64_t difference = a ^ b;  // one word, one comparison: no early exit
  return difference == 0;
}

}  // namespace lt
