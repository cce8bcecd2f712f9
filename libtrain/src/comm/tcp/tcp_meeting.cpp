// The side of ranks other than 0. They retry until rank 0 welcomes them, because it and its token may appear later.
#include "comm/tcp/tcp_meeting.h"

#include <fmt/format.h>

#include <optional>
#include <thread>

#include "comm/tcp/tcp_greeting.h"
#include "comm/tcp/tcp_reception.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetry{100};

std::vector<io::Descriptor> go_to_rank_0(const TcpMeeting& meeting) {
  const auto deadline = Clock::now() + meeting.patience;
  std::string problem;
  do {
    const std::optional<MeetingToken> token = meeting.token.read();
    std::optional<io::Descriptor> link;
    if (!token) {
      problem = meeting.token.name + " is not there";
    } else {
      link = tcp_connect(meeting.host, meeting.port, deadline, problem);
      if (!link) problem = "cannot connect: " + problem;
    }
    if (link) {
      const Greeting greeting = greet(*link, meeting.rank, meeting.size, *token, deadline);
      if (greeting == Greeting::welcome) {
        std::vector<io::Descriptor> links;
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

std::vector<io::Descriptor> meet_over_tcp(const TcpMeeting& meeting) {
  if (meeting.rank > 0) return go_to_rank_0(meeting);
  const std::optional<MeetingToken> token = meeting.token.read();
  if (!token) throw CommError("rank 0 has no token for the other ranks");
  return receive_ranks(meeting, *token);
}

}  // namespace lt::comm
