// Ranks meet over TCP with a right, a wrong and a stale token, while strangers connect to the same port.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include "comm/launch_variables.h"
#include "comm/tcp/tcp_greeting.h"
#include "comm/tcp/tcp_world.h"
#include "comm/tcp_ranks.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::comm;
using namespace lt_test;
using namespace std::chrono_literals;

namespace {

// Connects and sends these raw bytes. The connection lives as long as the result.
io::Descriptor stranger(int port, const std::string& bytes) {
  std::string problem;
  while (true) {
    auto handle = tcp_connect("127.0.0.1", port, std::chrono::steady_clock::now() + 5s, problem);
    if (!handle) continue;  // rank 0 does not listen yet
    CHECK(tcp_write(*handle, bytes.data(), bytes.size()));
    return std::move(*handle);
  }
}

bool is_closed_by_peer(const io::Descriptor& handle) {
  char byte = 0;
  return tcp_read(handle, &byte, 1, std::chrono::steady_clock::now() + 10s) == TcpRead::closed;
}

std::string refusal(const TcpMeeting& meeting) {
  try {
    meet_over_tcp(meeting);
  } catch (const CommError& error) {
    return error.what();
  }
  return "none";
}

TcpMeeting impatient(TcpMeeting meeting, std::chrono::milliseconds patience) {
  meeting.patience = patience;
  return meeting;
}

// Meets the other ranks, exchanges `mine` with theirs, and returns all texts joined.
std::string exchanged_by(const TcpMeeting& meeting, const std::string& mine) {
  return joined(Group(make_tcp_world_backend(meeting)).all_gather_bytes(mine));
}

// Runs rank 0 on a thread.
class RankThread {
 public:
  explicit RankThread(const TcpMeeting& meeting)
      : thread_([this, meeting] { result_ = exchanged_by(meeting, "zero"); }) {}
  std::string result() {
    thread_.join();
    return result_;
  }

 private:
  std::string result_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("meeting: strangers at the port neither disturb nor delay", "[comm]") {
  const int port = free_port();
  RankThread rank_0(meeting_at(port, 0, 2));
  const auto begin = std::chrono::steady_clock::now();
  std::vector<io::Descriptor> strangers;
  stranger(port, "");  // connects and disconnects
  strangers.push_back(stranger(port, "abc"));
  strangers.push_back(stranger(port, "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: everything that there is\r\n\r\n"));
  for (int i = 0; i < 400; ++i) strangers.push_back(stranger(port, ""));  // more than the listen queue holds
  CHECK(exchanged_by(meeting_at(port, 1, 2), "one") == "zero|one");
  CHECK(rank_0.result() == "zero|one");
  // If rank 0 handled them one after the other, each would take two seconds.
  CHECK(std::chrono::steady_clock::now() - begin < 60s);
}

TEST_CASE("meeting: a peer without the token is refused", "[comm]") {
  const int port = free_port();
  RankThread rank_0(meeting_at(port, 0, 2));
  Hello hello;
  hello.rank = 1, hello.size = 2;
  const auto say = [&](const Hello& what, const std::string& more = {}) {
    return stranger(port, std::string(reinterpret_cast<const char*>(&what), sizeof what) + more);
  };
  const io::Descriptor guesses = say(hello, std::string(sizeof(std::uint64_t), 'x'));
  Answer answer;
  CHECK(tcp_read(guesses, &answer, sizeof answer, std::chrono::steady_clock::now() + 10s) == TcpRead::complete);
  CHECK(answer.proof == proof_of(Speaker::listener, kToken, hello, answer.nonce));
  CHECK(is_closed_by_peer(guesses));
  // Rank 0 refuses its own proof when a stranger sends it back.
  const io::Descriptor reflects = say(hello);
  CHECK(tcp_read(reflects, &answer, sizeof answer, std::chrono::steady_clock::now() + 10s) == TcpRead::complete);
  CHECK(tcp_write(reflects, &answer.proof, sizeof answer.proof));
  CHECK(is_closed_by_peer(reflects));
  for (const auto& [rank, size] : {std::pair{0, 2}, {2, 2}, {1, 3}, {-1, 2}}) {
    Hello other = hello;
    other.rank = static_cast<std::uint32_t>(rank), other.size = static_cast<std::uint32_t>(size);
    CHECK(is_closed_by_peer(say(other)));
  }
  CHECK(exchanged_by(meeting_at(port, 1, 2), "one") == "zero|one");
  CHECK(rank_0.result() == "zero|one");
}

TEST_CASE("meeting: a rank with another token is told at once, and rank 0 says that there was one", "[comm]") {
  const int port = free_port();
  std::string at_rank_0;
  std::thread rank_0([&] { at_rank_0 = refusal(impatient(meeting_at(port, 0, 2), 1500ms)); });
  TcpMeeting other = meeting_at(port, 1, 2);
  other.token = source_of(MeetingToken{});
  CHECK(refusal(other) ==
        fmt::format("group world: rank 0 at 127.0.0.1:{}: does not know the token of LTRAIN_TOKEN", port));
  rank_0.join();
  CHECK(at_rank_0 ==
        "group world: rank 1 of 2: expected a connection, none came in time; 1 connections did not know the token");
}

TEST_CASE("meeting: ranks that do not come are named", "[comm]") {
  const int port = free_port();
  CHECK(refusal(impatient(meeting_at(port, 0, 2), 20ms)) ==
        "group world: rank 1 of 2: expected a connection, none came in time");
  CHECK(refusal(impatient(meeting_at(port, 0, 4), 20ms)) ==
        "group world: rank 1 of 4: expected a connection, none came in time; 3 ranks are missing");
  CHECK(refusal(impatient(meeting_at(port, 1, 2), 0ms))
            .starts_with(fmt::format("group world: rank 0 at 127.0.0.1:{}: cannot connect: ", port)));
}

TEST_CASE("meeting: rank 0 listens where it was named, and nowhere else", "[comm]") {
  const TcpListener listener("127.0.0.1", 0);
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  std::string problem;
  CHECK(tcp_connect("127.0.0.1", listener.port(), deadline, problem));
  CHECK_FALSE(tcp_connect("127.0.0.2", listener.port(), deadline, problem));  // a loopback address too
  TcpMeeting meeting = meeting_at(free_port(), 0, 2);
  meeting.one_host = false;
  CHECK(refusal(meeting) == "MASTER_ADDR: 127.0.0.1 is 127.0.0.1 on rank 0's host, which other hosts cannot reach");
  meeting.host = "192.0.2.7";  // reserved for examples
  CHECK(refusal(meeting) == "rank 0 cannot listen at 192.0.2.7: 192.0.2.7 is no address of this host");
  meeting.host = "no-such-host.invalid";
  CHECK(refusal(meeting).starts_with("rank 0 cannot listen at no-such-host.invalid: "));
}

TEST_CASE("meeting: rank 0 takes over the socket that its launcher has opened", "[comm]") {
  const int port = free_port();
  TcpListener opened("127.0.0.1", port);
  TcpMeeting meeting = meeting_at(port, 0, 2);
  CHECK(refusal(meeting) == fmt::format("127.0.0.1:{}: cannot listen: Address already in use", port));
  meeting.listening = ::dup(opened.handles().front().get());
  CHECK(listening_port(meeting.listening) == port);
  CHECK(listening_port(STDIN_FILENO) == 0);
  RankThread rank_0(meeting);
  CHECK(exchanged_by(meeting_at(port, 1, 2), "one") == "zero|one");
  CHECK(rank_0.result() == "zero|one");
  CHECK(listening_port(meeting.listening) == 0);  // closed once all are there
}

TEST_CASE("ranks without MPI: a name without an address is refused before anybody waits", "[comm]") {
  const std::string unknown(64, 'x');  // too long for a name, so that no server is asked
  const MeetingOptions no_token{[]() -> std::string {
    FAIL_CHECK("asked for a folder");
    return {};
  }};
  for (const int rank : {0, 1}) {
    try {
      meet_without_mpi({unknown, 29500}, {rank, 2, rank, 2, "torchrun variables"}, no_token);
      CHECK(false);
    } catch (const CommError& error) {
      CHECK(std::string(error.what())
                .starts_with("MASTER_ADDR: expected the name of rank 0's host, got \"" + unknown + "\": "));
      CHECK(error.hint() == "unset WORLD_SIZE and RANK for a run of one");
    }
  }
}

TEST_CASE("meeting: nobody takes a connection to itself for rank 0", "[comm]") {
  // Linux gives connections even ports first. So every ten thousandth or so has the port that it asks for.
  const int port = TcpListener("127.0.0.1", 0).port() / 2 * 2;
  int connected = 0;
  std::string problem;
  for (int i = 0; i < 60'000; ++i) {
    connected += tcp_connect("127.0.0.1", port, std::chrono::steady_clock::now() + 5s, problem) ? 1 : 0;
  }
  CHECK(connected == 0);
  CHECK(problem == "Connection refused");
}

TEST_CASE("meeting: the kernel watches over each connection", "[comm]") {
  const int port = free_port();
  std::vector<io::Descriptor> at_rank_0, at_rank_1;
  std::thread rank_0([&] { at_rank_0 = meet_over_tcp(meeting_at(port, 0, 2)); });
  at_rank_1 = meet_over_tcp(meeting_at(port, 1, 2));
  rank_0.join();
  const auto option = [](const io::Descriptor& handle, int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    CHECK(::getsockopt(handle.get(), level, name, &value, &size) == 0);
    return value;
  };
  for (const io::Descriptor* handle : {&at_rank_0[1], &at_rank_1[0]}) {
    CHECK(option(*handle, SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(*handle, IPPROTO_TCP, TCP_USER_TIMEOUT) == 30'000);
    CHECK(option(*handle, IPPROTO_TCP, TCP_KEEPIDLE) +
              option(*handle, IPPROTO_TCP, TCP_KEEPINTVL) * option(*handle, IPPROTO_TCP, TCP_KEEPCNT) ==
          30);
  }
}

TEST_CASE("meeting: a token of an earlier start is read again", "[comm]") {
  const TempFolder folder;
  const std::string path = folder / "token";
  write_file(path, "00112233445566778899aabbccddeeff\n", 0600);
  const auto stale = read_token_file(path);
  REQUIRE(stale);
  const int port = free_port();
  TcpMeeting meeting = meeting_at(port, 1, 2);
  int reads = 0;
  // Rank 1 arrives before rank 0 has written its token.
  meeting.token = {[&] { return reads++ < 2 ? stale : read_token_file(path); }, true, path};
  const MeetingTokenFile file(path);
  CHECK(file.token() != *stale);
  TcpMeeting of_rank_0 = meeting_at(port, 0, 2);
  of_rank_0.token = source_of(file.token());
  RankThread rank_0(of_rank_0);
  CHECK(exchanged_by(meeting, "one") == "zero|one");
  CHECK(rank_0.result() == "zero|one");
  CHECK(reads == 3);
}

TEST_CASE("ranks without MPI: a file in the shared folder does where the environment has no token", "[comm]") {
  const TempFolder folder;
  const auto exchanged = [&](const std::map<std::string, std::string>& variables, const MeetingOptions& options) {
    const Environment environment(variables);
    const MeetingPlace place{"localhost", free_port()};
    std::vector<std::string> results(2);
    const auto run = [&](int rank) {
      LaunchInfo info;
      info.rank = info.local_rank = rank, info.size = info.local_size = 2;
      try {
        const Group group(meet_without_mpi(place, info, options));
        results[static_cast<std::size_t>(rank)] = joined(group.all_gather_bytes(std::to_string(rank)));
        // Rank 0 removes the file before it answers.
        CHECK(std::filesystem::is_empty(folder.text()));
      } catch (const CommError& error) {
        results[static_cast<std::size_t>(rank)] = std::string(error.what()) + "; " + error.hint();
      }
    };
    std::thread rank_1(run, 1);
    run(0);
    rank_1.join();
    return results;
  };
  const std::string token = "00112233445566778899aabbccddeeff";
  const MeetingOptions with_folder{[&] { return folder.text(); }}, never{[]() -> std::string {
    FAIL_CHECK("asked for a folder");
    return {};
  }};
  CHECK(exchanged({{"SLURM_JOB_ID", "7"}}, with_folder) == std::vector<std::string>{"0|1", "0|1"});
  CHECK(exchanged({{"LTRAIN_TOKEN", token}}, never) == std::vector<std::string>{"0|1", "0|1"});
  for (const std::string& refused : exchanged({}, {})) {
    CHECK(refused.starts_with("ranks that meet over TCP: expected their token in LTRAIN_TOKEN, it is not set; "));
    CHECK(refused.find("ltrain launch") != std::string::npos);
  }
  const Environment variables({});
  write_file(token_file_path(folder.text()), "for everybody", 0644);
  CHECK_THROWS_AS(meet_without_mpi({"127.0.0.1", free_port()}, {1, 2, 1, 2, "torchrun variables"}, with_folder),
                  CommError);
}
