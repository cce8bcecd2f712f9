// The monitor over real sockets, with time set by the test: which ranks it admits, what it receives, and which ranks
// are gone.
#include "watchdog/monitor.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <future>
#include <limits>
#include <thread>

#include "comm/tcp/tcp_socket.h"
#include "comm/value_exchange.h"
#include "libtrain/error.h"
#include "libtrain/watchdog/watchdog.h"
#include "test_main/catch.h"
#include "test_main/world.h"

using lt::comm::bytes_of;
using namespace lt::watchdog;

namespace {

constexpr lt::comm::MeetingToken kToken{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

// The result of a meeting for rank `rank` of `size` on this host; rank 0 listens.
Meeting meeting_of(int rank, int size, const std::string& addresses = {}) {
  Meeting meeting;
  meeting.rank = rank, meeting.tokens = {kToken, lt::comm::MeetingToken{}}, meeting.monitors = {0, 1};
  meeting.processes.assign(static_cast<std::size_t>(size), own_process());
  if (rank == 0) meeting.listener = lt::comm::TcpListener::at_free_port(true);
  meeting.addresses = {rank == 0 ? std::to_string(meeting.listener->port()) : addresses, ""};
  return meeting;
}

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(20); }

lt::comm::Hello hello_of(std::uint32_t rank, std::uint32_t size) {
  lt::comm::Hello hello;
  hello.rank = rank, hello.size = size, hello.nonce = lt::comm::random_token();
  return hello;
}

// A connection to the monitor's port that has said `bytes`.
lt::io::Descriptor stranger_who_says(const Meeting& meeting, const std::string& bytes) {
  std::string problem;
  auto link =
      lt::comm::tcp_connect("127.0.0.1", meeting.listener->port(), soon(), problem, lt::comm::TcpPatience::unlimited);
  if (!link) throw lt::CommError(problem);
  lt::comm::tcp_write(*link, bytes.data(), bytes.size());
  return std::move(*link);
}

// The next `count` bytes that a stranger hears from the monitor; fewer if it is turned away.
std::string heard_by(const lt::io::Descriptor& stranger, Monitor& monitor, std::size_t count) {
  std::string heard(count, '\0');
  std::size_t got = 0;
  for (const auto deadline = soon(); got < count && Clock::now() < deadline;) {
    monitor.receive(Clock::now());
    const ssize_t more = ::recv(stranger.get(), heard.data() + got, count - got, MSG_DONTWAIT);
    if (more == 0 || (more < 0 && errno != EAGAIN && errno != EINTR)) break;
    if (more > 0) got += static_cast<std::size_t>(more);
  }
  heard.resize(got);
  return heard;
}

// Rank 0's monitor and scripted connections of the other ranks.
class Ranks {
 public:
  explicit Ranks(int size) : meeting_(meeting_of(0, size)), monitor(meeting_) {
    auto others = std::async(std::launch::async, [&] {
      for (int r = 1; r < size; ++r)
        channels.push_back(connect_to(meeting_of(r, size, meeting_.addresses[0]), 0, soon()));
    });
    while (others.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) monitor.receive(start);
    others.get();
  }
  // Runs until the monitor fulfils the condition.
  template <class Condition>
  bool comes(Condition&& condition) {
    for (const auto deadline = soon(); Clock::now() < deadline;) {
      monitor.receive(start);
      if (condition()) return true;
    }
    return false;
  }
  const Peer& peer(int rank, double seconds) {
    const auto after = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    return monitor.peers(start + after, 1e9)[static_cast<std::size_t>(rank)];
  }

  const Clock::time_point start = Clock::now();

 private:
  Meeting meeting_;

 public:
  Monitor monitor;
  std::vector<Channel> channels;  // of ranks 1, 2, ...
};

}  // namespace

namespace {

std::atomic<int> alarms{0};

// Sends SIGALRM to this thread every millisecond.
class Alarms {
 public:
  Alarms() {
    struct sigaction action {};
    action.sa_handler = [](int) { ++alarms; };
    ::sigaction(SIGALRM, &action, &before_);
    const itimerval every{{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
  }
  ~Alarms() {
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  Alarms(const Alarms&) = delete;
  Alarms& operator=(const Alarms&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace

TEST_CASE("watchdog: times that are no times are refused", "[watchdog]") {
  for (const double seconds : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const auto member :
         {&lt::WatchdogOptions::heartbeat_s, &lt::WatchdogOptions::collective_s, &lt::WatchdogOptions::init_s}) {
      lt::WatchdogOptions options;
      options.*member = seconds;
      CHECK_THROWS_WITH(lt::Watchdog(lt_test::world(), options),
                        Catch::Matchers::ContainsSubstring("expected a number of seconds above 0, got "));
    }
  }
}

TEST_CASE("channel: a signal does not end a flush", "[watchdog]") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  Channel here{lt::io::Descriptor(ends[0])}, there{lt::io::Descriptor(ends[1])};
  const std::string frame(200 << 10, 'x');
  for (int i = 0; i < 4; ++i) here.send(Notice::status, frame);  // more than the socket holds
  std::promise<void> is_blocked;
  auto received = std::async(std::launch::async, [&] {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    is_blocked.set_value();
    while (alarms < 2) std::this_thread::yield();
    std::size_t frames = 0;
    for (const auto deadline = soon(); frames < 4 && there.is_open() && Clock::now() < deadline;) {
      frames += there.receive().size();
    }
    return frames;
  });
  is_blocked.get_future().wait();
  const Alarms every_ms;
  here.flush(soon());
  here.close();
  CHECK(received.get() == 4);
}

TEST_CASE("monitor: statuses arrive, silence is counted, a pause forgives", "[watchdog]") {
  Ranks ranks(3);
  RankStatus status;
  status.step = 7;
  ranks.channels[0].send(Notice::status, encode(status));
  CHECK(ranks.comes([&] { return ranks.peer(1, 0).status.step == 7; }));
  CHECK(ranks.peer(1, 4).silent_s == Approx(4));
  CHECK(ranks.peer(2, 4).link == Link::open);
  ranks.monitor.forgive(ranks.start + std::chrono::seconds(4));
  CHECK(ranks.peer(1, 4).silent_s == Approx(0));
}

TEST_CASE("monitor: a connection that closes is gone after a moment, unless it said goodbye", "[watchdog]") {
  Ranks ranks(4);
  ranks.channels[0].close();
  ranks.channels[1].send(Notice::goodbye, "done");
  ranks.channels[1].close();
  ranks.channels[2].send(Notice::goodbye, "failed");
  CHECK(ranks.comes([&] { return ranks.peer(1, 1).link == Link::closed; }));
  CHECK(ranks.comes([&] { return ranks.peer(2, 1).link == Link::done; }));
  CHECK(ranks.comes([&] { return ranks.peer(3, 1).link == Link::failed; }));
  // Its silence begins with its goodbye, whatever it sends afterwards.
  ranks.channels[2].send(Notice::told);
  const auto later = ranks.start + std::chrono::seconds(4);
  for (const auto deadline = soon(); !ranks.monitor.all_told({}) && Clock::now() < deadline;) {
    ranks.monitor.receive(later);
  }
  CHECK(ranks.monitor.all_told({}));
  CHECK(ranks.peer(3, 5).silent_s == Approx(5));
  ranks.monitor.forgive(later);
  CHECK(ranks.peer(3, 5).silent_s == Approx(5));
}

TEST_CASE("monitor: a frame longer than any ends its connection", "[watchdog]") {
  Ranks ranks(2);
  ranks.channels[0].send(Notice::status, std::string(300 << 10, 'x'));
  CHECK(ranks.comes([&] { return ranks.peer(1, 1).link == Link::closed; }));
}

TEST_CASE("monitor: strangers are shut out", "[watchdog]") {
  Meeting meeting = meeting_of(0, 2);
  Monitor monitor(meeting);
  const auto is_shut_out = [&](const lt::io::Descriptor& stranger) { return heard_by(stranger, monitor, 1).empty(); };
  CHECK(is_shut_out(stranger_who_says(meeting, "GET / HTTP/1.1\r\nHost: of another protocol\r\n")));
  CHECK(is_shut_out(stranger_who_says(meeting, std::string(1 << 16, 'x'))));
  for (const auto& [rank, size] : {std::pair{0, 2}, {2, 2}, {1, 3}, {-1, 2}}) {
    const auto hello = hello_of(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size));
    CHECK(is_shut_out(stranger_who_says(meeting, bytes_of(hello))));
  }
  // Neither a guess nor the monitor's own proof, sent back, is welcome.
  const lt::comm::Hello hello = hello_of(1, 2);
  for (const bool is_sent_back : {false, true}) {
    const lt::io::Descriptor stranger = stranger_who_says(meeting, bytes_of(hello));
    const auto answer = lt::comm::value_of<lt::comm::Answer>(heard_by(stranger, monitor, sizeof(lt::comm::Answer)));
    REQUIRE(answer);
    CHECK(answer->proof == lt::comm::proof_of(lt::comm::Speaker::listener, kToken, hello, answer->nonce));
    const std::string proof = bytes_of(is_sent_back ? answer->proof : std::uint64_t{7});
    CHECK(lt::comm::tcp_write(stranger, proof.data(), proof.size()));
    CHECK(is_shut_out(stranger));
  }
}

TEST_CASE("meeting: a stranger at an advertised address learns nothing of the token", "[watchdog]") {
  const lt::comm::TcpListener stranger = lt::comm::TcpListener::at_free_port(true);
  std::string seen;
  auto refused = std::async(std::launch::async, [&] {
    const Meeting meeting = meeting_of(1, 2, std::to_string(stranger.port()));
    try {
      connect_to(meeting, 0, soon());
    } catch (const lt::CommError& error) {
      return std::string(error.what());
    }
    return std::string();
  });
  std::vector<lt::io::Descriptor> callers;
  bool is_full = false;
  while (refused.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    if (auto caller = lt::comm::TcpListener::accept(stranger.handles().front(), is_full)) {
      callers.push_back(std::move(*caller));
      const std::string answer = bytes_of(lt::comm::Answer{});
      CHECK(lt::comm::tcp_write(callers.back(), answer.data(), answer.size()));
    }
    for (const lt::io::Descriptor& caller : callers) {
      std::array<char, 1024> bytes{};
      const ssize_t got = ::recv(caller.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got > 0) seen.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }
  CHECK(refused.get().ends_with("last tried 127.0.0.1: it does not know this run's token"));
  CHECK(seen.size() == sizeof(lt::comm::Hello));  // and never a proof
  CHECK(seen.find(bytes_of(kToken)) == seen.npos);
}

TEST_CASE("meeting: a monitor does not take a rank that wants another one", "[watchdog]") {
  Meeting meeting = meeting_of(0, 3);
  Monitor monitor(meeting);
  Meeting other = meeting_of(2, 3);
  other.addresses = {"", meeting.addresses[0]};  // as if another host's address were this host's too
  auto refused = std::async(std::launch::async, [&] { connect_to(other, 1, soon()); });
  while (refused.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) monitor.receive(Clock::now());
  CHECK_THROWS_WITH(refused.get(), Catch::Matchers::ContainsSubstring("127.0.0.1: it does not know this run's token"));
}

TEST_CASE("monitor: a rank that gave up an attempt connects with the next one", "[watchdog]") {
  for (const bool was_welcomed : {false, true}) {
    CAPTURE(was_welcomed);
    Meeting meeting = meeting_of(0, 2);
    Monitor monitor(meeting);
    const auto start = Clock::now();  // time stands still for the monitor, which has to notice that `first` is closed
    const lt::comm::Hello hello = hello_of(1, 2);
    lt::io::Descriptor first = stranger_who_says(meeting, bytes_of(hello));
    if (was_welcomed) {
      const auto answer =
          lt::comm::value_of<lt::comm::Answer>(heard_by(first, monitor, sizeof(lt::comm::Answer))).value();
      const std::string proof = bytes_of(lt::comm::proof_of(lt::comm::Speaker::caller, kToken, hello, answer.nonce));
      CHECK(lt::comm::tcp_write(first, proof.data(), proof.size()));
      CHECK(heard_by(first, monitor, 1) == std::string(1, lt::comm::kWelcome));
    }
    first.close();
    auto second =
        std::async(std::launch::async, [&] { return connect_to(meeting_of(1, 2, meeting.addresses[0]), 0, soon()); });
    while (second.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) monitor.receive(start);
    CHECK_NOTHROW(second.get().send(Notice::goodbye, "done"));
    const auto has_heard = [&] { return monitor.peers(start, 1e9)[1].link == Link::done; };
    for (const auto deadline = soon(); !has_heard() && Clock::now() < deadline;) monitor.receive(start);
    CHECK(has_heard());
  }
}

TEST_CASE("monitor: it listens only while it has room for strangers", "[watchdog]") {
  Meeting meeting = meeting_of(0, 2);
  Monitor monitor(meeting);
  const auto start = Clock::now();
  std::vector<lt::io::Descriptor> strangers;
  for (int i = 0; i < 256; ++i) {
    strangers.push_back(stranger_who_says(meeting, ""));
    CHECK(monitor.listener() >= 0);
    monitor.receive(start);
  }
  for (const auto deadline = soon(); monitor.listener() >= 0 && Clock::now() < deadline;) monitor.receive(start);
  CHECK(monitor.listener() == -1);
  monitor.receive(start + std::chrono::seconds(6));  // they have sent nothing
  CHECK(monitor.listener() >= 0);
}

TEST_CASE("meeting: the addresses of another host are tried in order", "[watchdog]") {
  Meeting meeting = meeting_of(0, 2);
  meeting.listener = lt::comm::TcpListener::at_free_port(false);
  const std::string port = std::to_string(meeting.listener->port());
  Monitor monitor(meeting);
  Meeting other = meeting_of(1, 2, port + " 100::1 127.0.0.1");
  other.processes[0].machine = "another";
  auto connected = std::async(std::launch::async, [&] { return connect_to(other, 0, soon()); });
  while (connected.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) monitor.receive(Clock::now());
  CHECK(connected.get().is_open());
}

TEST_CASE("meeting: a monitor that cannot be reached is an error that names it", "[watchdog]") {
  int port = 0;
  {
    port = lt::comm::TcpListener::at_free_port(true).port();  // nobody listens there any more
  }
  try {
    connect_to(meeting_of(1, 2, std::to_string(port)), 0, Clock::now());
    FAIL("no error was thrown");
  } catch (const lt::CommError& error) {
    const std::string text = error.what();
    CHECK(text.find("cannot connect to rank 0 on host") != std::string::npos);
    CHECK(text.find("127.0.0.1: Connection refused") != std::string::npos);
  }
}
