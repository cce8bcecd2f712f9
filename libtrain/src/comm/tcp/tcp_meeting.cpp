// The side of all ranks but 0: they retry until they are welcome, because rank 0 and its token may come later.
#include "comm/tcp/tcp_meeting.h"

#include <fmt/format.h>

#include <optional>
#include <thread>

#include "comm/tcp/tcp_greeting.h"
#include "comm/tcp/tcp_reception.h"
#include "libtrain/error.h"

namespace lt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetry{100};

enum class Greeting { welcome, closed, wrong_token };

// After each message the rank waits for rank 0, which may turn it away.
Greeting greet(const Descriptor& link, const TcpMeeting& meeting, const MeetingToken& token, TcpDeadline deadline) {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(meeting.rank), hello.size = static_cast<std::uint32_t>(meeting.size);
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

std::vector<Descriptor> go_to_rank_0(const TcpMeeting& meeting) {
  const auto deadline = Clock::now() + meeting.patience;
  std::string problem;
  do {
    const std::optional<MeetingToken> token = meeting.token.read();
    std::optional<Descriptor> link;
    if (!token) {
      problem = meeting.token.name + " is not there";
    } else {
      link = tcp_connect(meeting.host, meeting.port, deadline, problem);
      if (!link) problem = "cannot connect: " + problem;
    }
    if (link) {
      const Greeting greeting = greet(*link, meeting, *token, deadline);
      if (greeting == Greeting::welcome) {
        std::vector<Descriptor> links;
        links.push_back(std::move(*link));
        return links;
      }
      problem = greeting == Greeting::closed ? "closed the connection"
                                             : fmt::format("does not know the token of {}", meeting.token.name);
      if (greeting == Greeting::wrong_token && !meeting.token.may_be_stale) break;
    }
    std::this_thread::sleep_for(kRetry);
  } while (Clock::now() < deadline);
  throw CommError(
      fmt::format("group world: rank 0 at {}:{}: {}", meeting.host, meeting.port, problem),
      "MASTER_ADDR names the host of rank 0, MASTER_PORT a port that is free there; all ranks need the same "
      "token");
}

}  // namespace

std::vector<Descriptor> meet_over_tcp(const TcpMeeting& meeting) {
  if (meeting.rank > 0) return go_to_rank_0(meeting);
  const std::optional<MeetingToken> token = meeting.token.read();
  if (!token) throw CommError("rank 0 has no token for the other ranks");
  return receive_ranks(meeting, *token);
}

}  // namespace lt
