// Implements both sides of a greeting.
#include "comm/tcp/tcp_greeting.h"

#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <string>

namespace lt::comm {

static_assert(std::endian::native == std::endian::little, "numbers travel as they stand in memory");

namespace {

bool is_of_peer(const Hello& hello, int own_rank, int size) {
  return hello.protocol == Hello::kProtocol && hello.size == static_cast<std::uint32_t>(size) &&
         hello.rank < hello.size && hello.rank != static_cast<std::uint32_t>(own_rank);
}

}  // namespace

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

Greeting greet(const io::Descriptor& link, int rank, int size, const MeetingToken& token, TcpDeadline deadline) {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(rank), hello.size = static_cast<std::uint32_t>(size);
  hello.nonce = random_token();
  Answer answer;
  if (!tcp_write(link, &hello, sizeof hello)) return Greeting::closed;
  if (tcp_read(link, &answer, sizeof answer, deadline) != TcpRead::complete) return Greeting::closed;
  if (!is_same_proof(answer.proof, proof_of(Speaker::listener, token, hello, answer.nonce)))
    return Greeting::wrong_token;
  const std::uint64_t proof = proof_of(Speaker::caller, token, hello, answer.nonce);
  char said = 0;
  if (!tcp_write(link, &proof, sizeof proof)) return Greeting::closed;
  if (tcp_read(link, &said, sizeof said, deadline) != TcpRead::complete) return Greeting::closed;
  return said == kWelcome ? Greeting::welcome : Greeting::closed;
}

Guest::State Guest::hear(int own_rank, int size, const MeetingToken& token) {
  if (!said_hello_) {
    if (const State state = receive(&hello_, sizeof hello_); state != State::welcome) return state;
    if (!is_of_peer(hello_, own_rank, size)) return State::turned_away;
    said_hello_ = true;
    answer_.nonce = random_token();
    answer_.proof = proof_of(Speaker::listener, token, hello_, answer_.nonce);
    if (!tcp_write(handle_, &answer_, sizeof answer_)) return State::turned_away;
  }
  if (const State state = receive(&proof_, sizeof proof_); state != State::welcome) return state;
  const std::uint64_t expected = proof_of(Speaker::caller, token, hello_, answer_.nonce);
  return is_same_proof(proof_, expected) ? State::welcome : State::turned_away;
}

io::Descriptor Guest::welcomed() {
  if (!tcp_write(handle_, &kWelcome, sizeof kWelcome)) handle_.close();
  return std::move(handle_);
}

Guest::State Guest::receive(void* to, std::size_t size) {
  while (got_ < size) {
    const ssize_t count = ::recv(handle_.get(), static_cast<char*>(to) + got_, size - got_, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return State::greets;
    if (count <= 0) return State::turned_away;
    got_ += static_cast<std::size_t>(count);
  }
  got_ = 0;
  return State::welcome;
}

}  // namespace lt::comm
