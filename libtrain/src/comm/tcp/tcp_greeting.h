// How two ranks that have just connected prove to each other that they know the run's token, without sending it.
// Messages have fixed sizes, so a stranger causes no allocation:
//
//   caller     Hello: who it is, and a random number
//   listener   Answer: a random number, and its proof
//   caller     its proof
//   listener   a welcome
//
// A proof is SipHash, with the token as its key, over the speaker, both ranks' random numbers, the caller's rank and
// the size. Because the numbers are fresh, a proof is useless the next time. Because it includes the speaker, it is
// useless to the other side. What follows the greeting is neither encrypted nor signed: the network is trusted,
// strangers on it are not.
#pragma once

#include <array>
#include <cstdint>

#include "comm/tcp/meeting_token.h"

namespace lt {

using Nonce = SipKey;

struct Hello {
  std::array<char, 16> protocol = kProtocol;
  std::uint32_t rank = 0, size = 0;
  Nonce nonce{};

  static constexpr std::array<char, 16> kProtocol = {'l', 'i', 'b', 't', 'r', 'a', 'i', 'n',
                                                     ' ', 'r', 'a', 'n', 'k', 's', ' ', '3'};
};
static_assert(sizeof(Hello) == 40);

struct Answer {
  Nonce nonce{};
  std::uint64_t proof = 0;
};
static_assert(sizeof(Answer) == 24);

constexpr char kWelcome = 'w';

enum class Speaker : std::uint32_t { listener, caller };
// Whether the hello is of this protocol and of a rank other than the listener's, of the same number of ranks.
bool is_of_peer(const Hello& hello, int own_rank, int size);
// A fresh answer.
Answer answer_to(const Hello& hello, const MeetingToken& token);
std::uint64_t proof_of(Speaker speaker, const MeetingToken& token, const Hello& hello, const Nonce& answer);

// Takes a time that does not reveal how much of the two is equal.
bool is_same_proof(std::uint64_t a, std::uint64_t b);

}  // namespace lt
