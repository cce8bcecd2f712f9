// Computes and compares the proofs of a greeting.
#include "comm/tcp/tcp_greeting.h"

#include <bit>
#include <string>

namespace lt {

static_assert(std::endian::native == std::endian::little, "numbers travel as they stand in memory");

bool is_of_peer(const Hello& hello, int own_rank, int size) {
  return hello.protocol == Hello::kProtocol && hello.size == static_cast<std::uint32_t>(size) &&
         hello.rank < hello.size && hello.rank != static_cast<std::uint32_t>(own_rank);
}

Answer answer_to(const Hello& hello, const MeetingToken& token) {
  Answer answer{random_token(), 0};
  answer.proof = proof_of(Speaker::listener, token, hello, answer.nonce);
  return answer;
}

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
