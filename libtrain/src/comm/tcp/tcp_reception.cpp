// One poll() loop serves all connections, so that no connection waits for another one.
#include "comm/tcp/tcp_reception.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>

#include "comm/tcp/tcp_greeting.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGreetingPatience{2};  // the time that a connection has for its greeting
constexpr std::size_t kStrangers = 256;               // connections allowed besides the missing ranks
constexpr int kAcceptedAtOnce = 64;

class Reception {
 public:
  Reception(const TcpMeeting& meeting, const MeetingToken& token)
      : meeting_(meeting),
        token_(token),
        listener_(meeting.listening >= 0 ? TcpListener(io::Descriptor(meeting.listening))
                                         : TcpListener(meeting.host, meeting.port)) {
    if (!meeting.one_host && !listener_.only_loopback().empty()) {
      throw CommError(fmt::format("MASTER_ADDR: {} is {} on rank 0's host, which other hosts cannot reach",
                                  meeting.host, listener_.only_loopback()),
                      "name an address of the network: the first of `hostname -I` on rank 0's host");
    }
    links_.resize(static_cast<std::size_t>(meeting.size));
  }

  std::vector<io::Descriptor> receive_all() {
    const auto deadline = Clock::now() + meeting_.patience;
    while (missing_ > 0) {
      if (Clock::now() > deadline) fail();
      wait(deadline);
      hear_guests();
      accept_guests();
    }
    return std::move(links_);
  }

 private:
  void wait(Clock::time_point deadline) {
    entries_.clear();
    for (const Guest& guest : guests_) {
      entries_.push_back({guest.handle().get(), POLLIN, 0});
      deadline = std::min(deadline, guest.since() + kGreetingPatience);
    }
    for (const io::Descriptor& handle : listener_.handles()) entries_.push_back({handle.get(), POLLIN, 0});
    if (::poll(entries_.data(), entries_.size(), poll_ms_until(deadline)) < 0 && errno != EINTR) {
      throw CommError(fmt::format("poll: {}", std::strerror(errno)));
    }
  }

  // A guest whose greeting is incomplete stays until its deadline.
  void hear_guests() {
    std::deque<Guest> staying;
    for (std::size_t i = 0; i < guests_.size(); ++i) {
      Guest& guest = guests_[i];
      const Guest::State state = entries_[i].revents == 0 ? Guest::State::greets : guest.hear(0, meeting_.size, token_);
      if (state == Guest::State::welcome) welcome(guest);
      if (state == Guest::State::turned_away && guest.said_hello()) ++refused_;
      if (state == Guest::State::greets && Clock::now() < guest.since() + kGreetingPatience) {
        staying.push_back(std::move(guest));
      }
    }
    guests_ = std::move(staying);
  }

  void welcome(Guest& guest) {
    io::Descriptor& link = links_[static_cast<std::size_t>(guest.rank())];
    if (link.get() >= 0) return;  // that rank is already here
    link = guest.welcomed();
    if (link.get() < 0) return;
    --missing_;
  }

  // If full, the oldest guest is dropped: a rank of this run speaks at once, and retries if it was too slow.
  void accept_guests() {
    for (const io::Descriptor& listening : listener_.handles()) {
      for (int i = 0; i < kAcceptedAtOnce; ++i) {
        bool is_full = false;
        std::optional<io::Descriptor> handle = TcpListener::accept(listening, is_full);
        if (!handle && !is_full) break;
        if (is_full && guests_.empty()) {
          throw CommError("rank 0 can open no more connections", "`ulimit -n` is less than the number of ranks");
        }
        if (is_full || guests_.size() >= kStrangers + static_cast<std::size_t>(missing_)) guests_.pop_front();
        if (handle) guests_.emplace_back(std::move(*handle));
      }
    }
  }

  [[noreturn]] void fail() const {
    const auto first =
        std::find_if(links_.begin() + 1, links_.end(), [](const io::Descriptor& h) { return h.get() < 0; });
    std::string text = fmt::format("group world: rank {} of {}: expected a connection, none came in time",
                                   first - links_.begin(), meeting_.size);
    if (missing_ > 1) text += fmt::format("; {} ranks are missing", missing_);
    if (refused_ > 0) text += fmt::format("; {} connections did not know the token", refused_);
    throw CommError(text, "is it running, and is the port open to it?");
  }

  const TcpMeeting& meeting_;
  const MeetingToken& token_;
  TcpListener listener_;
  std::vector<io::Descriptor> links_;
  int missing_ = meeting_.size - 1, refused_ = 0;
  std::deque<Guest> guests_;  // in order of arrival
  std::vector<pollfd> entries_;
};

}  // namespace

std::vector<io::Descriptor> receive_ranks(const TcpMeeting& meeting, const MeetingToken& token) {
  io::allow_descriptors(static_cast<std::size_t>(meeting.size) + kStrangers);
  return Reception(meeting, token).receive_all();
}

}  // namespace lt::comm
