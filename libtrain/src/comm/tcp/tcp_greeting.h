// The greeting: two ranks that have just connected prove to each other that they know the run's token without sending
// it.
// Messages have fixed sizes, so a stranger causes no allocation:
//
//   caller     Hello: who it is, and a random number
//   listener   Answer: a random number, and its proof
//   caller     its proof
//   listener   a welcome
//
// A proof is SipHash, with the token as its key, over the speaker, both ranks' random numbers, the caller's rank and
// the number of ranks. The random numbers are fresh, so a proof cannot be replayed. It includes the speaker, so the
// other side cannot send it back. Messages after the greeting are neither encrypted nor signed: the network is trusted,
// strangers on it are not.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "comm/tcp/meeting_token.h"
#include "comm/tcp/tcp_socket.h"

namespace lt::comm {

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
std::uint64_t proof_of(Speaker speaker, const MeetingToken& token, const Hello& hello, const Nonce& answer);

// Compares in constant time.
bool is_same_proof(std::uint64_t a, std::uint64_t b);

enum class Greeting { welcome, closed, wrong_token };
// The caller's side. After each message it waits for the listener, which may reject it.
Greeting greet(const io::Descriptor& link, int rank, int size, const MeetingToken& token, TcpDeadline deadline);

// The listener's side: a connection during its greeting. No call blocks.
class Guest {
 public:
  enum class State { greets, turned_away, welcome };

  explicit Guest(io::Descriptor handle, TcpDeadline since = std::chrono::steady_clock::now())
      : handle_(std::move(handle)), since_(since) {}
  const io::Descriptor& handle() const { return handle_; }
  TcpDeadline since() const { return since_; }
  int rank() const { return static_cast<int>(hello_.rank); }
  bool said_hello() const { return said_hello_; }

  // Takes the bytes that have arrived. Rejects a caller with a different protocol or number of ranks, with an invalid
  // rank or the listener's rank, or with a wrong proof.
  State hear(int own_rank, int size, const MeetingToken& token);
  // Tells the guest that it is welcome, and returns its connection. The connection is closed if the guest is gone.
  io::Descriptor welcomed();

 private:
  // Returns State::welcome once all `size` bytes have arrived.
  State receive(void* to, std::size_t size);

  io::Descriptor handle_;
  TcpDeadline since_;
  bool said_hello_ = false;
  std::size_t got_ = 0;  // bytes received of the awaited message
  Hello hello_;
  Answer answer_;
  std::uint64_t proof_ = 0;
};

}  // namespace lt::comm
