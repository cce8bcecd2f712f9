// Groups of ranks that met over TCP: their exchanges, one at a time and concurrently, and their cost.
#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "comm/tcp/tcp_mailbox.h"
#include "comm/tcp/tcp_switchboard.h"
#include "comm/tcp_ranks.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::comm;
using namespace lt_test;

TEST_CASE("tcp: bytes of every rank, in order, and from any root", "[comm]") {
  for (const int size : {2, 3, 5}) {
    const auto results = on_ranks(size, [](const Group& group) {
      const std::string mine = "rank " + std::to_string(group.rank()) + std::string(1, '\0');
      std::string text = joined(group.all_gather_bytes(mine));
      for (int root = 0; root < group.size(); ++root) text += "," + group.broadcast_bytes(mine, root);
      const std::string large(3'000'000, static_cast<char>('a' + group.rank()));  // exceeds a socket's buffer
      text +=
          group.all_gather_bytes(large).back() == std::string(large.size(), static_cast<char>('a' + group.size() - 1))
              ? " large"
              : " wrong";
      group.barrier();
      return text;
    });
    std::vector<std::string> all;
    for (int rank = 0; rank < size; ++rank) all.push_back("rank " + std::to_string(rank) + std::string(1, '\0'));
    for (const std::string& result : results) CHECK(result == joined(all) + "," + joined(all, ",") + " large");
  }
}

TEST_CASE("tcp: split groups, of one rank too, and groups of those", "[comm]") {
  const auto results = on_ranks(5, [](const Group& group) {
    const Group odd_or_even = group.split([](int rank) { return rank % 2; }, "parity");
    const Group twin = odd_or_even.duplicate("twin"), alone = group.split(group.rank(), "alone");
    return fmt::format("{} {} {}", joined(odd_or_even.all_gather_bytes(std::to_string(group.rank()))),
                       joined(twin.all_gather_bytes(std::to_string(twin.rank()))), alone.size());
  });
  CHECK(results ==
        std::vector<std::string>{"0|2|4 0|1|2 1", "1|3 0|1 1", "0|2|4 0|1|2 1", "1|3 0|1 1", "0|2|4 0|1|2 1"});
}

TEST_CASE("tcp: who waits for a rank that has gone is told, in collectives of tensors at their wait", "[comm]") {
  const auto results = on_ranks(3, [](const Group& group) -> std::string {
    if (group.rank() == 2) return "gone";
    const Tensor tensor = Tensor::zeros({4}, DType::f32);
    std::string told;
    for (const bool of_tensors : {true, false}) {
      try {
        of_tensors ? group.all_reduce("sum", tensor, DType::f32) : group.barrier();
      } catch (const CommError& error) {
        told += fmt::format("exit code {}: {}\n", static_cast<int>(error.code()), error.what());
      }
    }
    return told;
  });
  const std::string line = "exit code 75: group world: rank 2: has closed the connection\n";
  CHECK(results[0] == line + line);
  CHECK(results[1] == results[0]);
}

TEST_CASE("switchboard: who comes late learns of the first rank that went, not of those that followed it", "[comm]") {
  std::vector<std::string> answers;
  Switchboard switchboard(
      4, [&](int rank, const Frame& frame) { answers.push_back(fmt::format("{}: {}", rank, *frame.payload)); });
  switchboard.take(1, Frame({}, "one"));
  switchboard.lose(2, "gone");
  switchboard.lose(1, "followed");
  switchboard.take(0, Frame({}, "zero"));
  CHECK(joined(answers) == "1: rank 2: gone|0: rank 2: gone");
}

TEST_CASE("switchboard: a group whose leader goes before it is open fails for all who come", "[comm]") {
  std::vector<std::string> answers;
  Switchboard switchboard(
      4, [&](int rank, const Frame& frame) { answers.push_back(fmt::format("{}: {}", rank, *frame.payload)); });
  FrameHeader header;
  header.channel = 7, header.leader = 1;
  switchboard.take(2, Frame(header, "two"));
  switchboard.lose(0, "of another group");
  CHECK(answers.empty());
  switchboard.lose(1, "gone");
  switchboard.take(3, Frame(header, "three"));
  CHECK(joined(answers) == "2: rank 1: gone|3: rank 1: gone");
}

TEST_CASE("switchboard: what is complete is answered, though a rank goes before it has the answer", "[comm]") {
  std::vector<int> answered;
  Switchboard switchboard(2, [&](int rank, const Frame& frame) {
    CHECK(frame.header.kind == FrameKind::gather);
    answered.push_back(rank);
  });
  switchboard.take(1, Frame({}, "one"));
  switchboard.lose(1, "gone");
  switchboard.take(0, Frame({}, "zero"));
  CHECK(answered == std::vector<int>{0, 1});
}

TEST_CASE("tcp: groups are used side by side by several threads", "[comm]") {
  const auto results = on_ranks(4, [](const Group& group) {
    const Group pairs = group.split([](int rank) { return rank / 2; }, "pairs"), other = group.duplicate("other"),
                patient = pairs.duplicate_patient("patient");
    const auto exchanges = [&](const Group& members, const std::string& tag) {
      int wrong = 0;
      for (int i = 0; i < 100; ++i) {
        const std::string mine = fmt::format("{} {} {}", tag, i, members.rank());
        const auto all = members.all_gather_bytes(mine);
        for (int r = 0; r < members.size(); ++r) {
          wrong += all[static_cast<std::size_t>(r)] != fmt::format("{} {} {}", tag, i, r);
        }
        wrong +=
            members.broadcast_bytes(mine, i % members.size()) != fmt::format("{} {} {}", tag, i, i % members.size());
      }
      return wrong;
    };
    int wrong_of_thread = -1;
    std::thread thread([&] { wrong_of_thread = exchanges(patient, "patient"); });
    const int wrong = exchanges(other, "other");
    thread.join();
    return std::to_string(wrong + wrong_of_thread + exchanges(pairs, "pairs"));
  });
  CHECK(joined(results) == "0|0|0|0");
}

TEST_CASE("tcp: ranks that are in different exchanges are told, on every rank of the group", "[comm]") {
  const auto results = on_ranks(3, [](const Group& group) -> std::string {
    const Group pair = group.split([](int rank) { return rank == 0; }, "pair");
    try {
      if (group.rank() == 1) pair.all_gather_bytes("x");
      if (group.rank() == 2) pair.broadcast_bytes("x", 1);
    } catch (const BrokenCommError& error) {
      CHECK(error.code() == ExitCode::restart);
      throw;
    }
    return joined(group.all_gather_bytes("after"));
  });
  CHECK(results[1] ==
        "error: group pair: rank 1 is at exchange 0, all_gather_bytes or barrier, rank 2 is at exchange 0, "
        "broadcast from 1");
  CHECK(results[2] == results[1]);
  CHECK(results[0].starts_with("error: group world: rank "));  // its peers have gone
}

namespace {

std::size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// This process's virtual address space in megabytes.
double virtual_megabytes() {
  std::ifstream stream("/proc/self/statm");
  double pages = 0;
  stream >> pages;
  return pages * 4096 / 1e6;
}

}  // namespace

TEST_CASE("tcp: a rank has one connection for all of its groups", "[comm]") {
  constexpr int kRanks = 5;
  const std::size_t before = descriptors();
  const auto results = on_ranks(kRanks, [&](const Group& group) {
    // Rank 0 counts while the others wait for it.
    const auto count = [&] {
      group.barrier();
      const std::size_t open = group.rank() == 0 ? descriptors() : 0;
      group.barrier();
      return open;
    };
    const std::size_t met = count();
    std::vector<Group> groups;
    for (int i = 0; i < 20; ++i) {
      groups.push_back(group.split([&](int rank) { return (rank + i) % 2; }, "group"));
      groups.back().barrier();
    }
    return fmt::format("{} {}", met - before, count() - met);
  });
  // Both ends of each connection are in this process. Rank 0 also holds an epoll and an eventfd descriptor.
  CHECK(results[0] == fmt::format("{} 0", 2 * (kRanks - 1) + 2));
}

TEST_CASE("tcp: a length is not believed", "[comm]") {
  const int port = free_port();
  std::string at_rank_0;
  std::thread rank_0([&] {
    try {
      Group(make_tcp_world_backend(meeting_at(port, 0, 2))).all_gather_bytes("zero");
    } catch (const CommError& error) {
      at_rank_0 = error.what();
    }
  });
  const std::vector<io::Descriptor> links = meet_over_tcp(meeting_at(port, 1, 2));
  FrameHeader header;
  header.length = std::uint32_t{1} << 31;
  CHECK(tcp_write(links[0], &header, sizeof header));
  rank_0.join();
  CHECK(at_rank_0.starts_with(
      "group world: rank 1: expected a message of at most 1073741824 bytes and a kind up to 7, got 2147483648 "));
}

TEST_CASE("tcp: too long a message is the caller's error, which a restart would not cure", "[comm]") {
  std::string longer(kMostMessageBytes + 1, 'x');
  const auto results = on_ranks(2, [&](const Group& group) -> std::string {
    if (group.rank() == 0) return "";
    try {
      group.all_gather_bytes(longer);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "sent";
  });
  CHECK(results[1] == "group world: expected a message of at most 1073741824 bytes, got 1073741825");
  // Shorter ones that are too long together.
  TcpMailbox mailbox;
  Switchboard switchboard(2, [&](int rank, const Frame& frame) {
    if (rank == 1) mailbox.put(frame);
  });
  longer.resize(kMostMessageBytes / 2);
  switchboard.take(0, Frame({}, longer));
  switchboard.take(1, Frame({}, std::move(longer)));
  CHECK_THROWS_AS(mailbox.take(kWorldChannel), UsageError);
}

TEST_CASE("tcp: memory grows with what arrives", "[comm]") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const io::Descriptor here(ends[0]), there(ends[1]);
  FrameHeader header;
  header.length = kMostMessageBytes;
  REQUIRE(tcp_write(there, &header, sizeof header));
  REQUIRE(tcp_write(there, "0123456789", 10));
  const double before = virtual_megabytes();
  FrameReader reader;
  std::vector<Frame> frames;
  set_blocking(here, false);
  auto state = FrameReader::State::open;
  while (state == FrameReader::State::open) state = reader.read(here, frames);
  CHECK(state == FrameReader::State::drained);
  CHECK(frames.empty());
  CHECK(virtual_megabytes() - before < 100);
}

TEST_CASE("tcp: frames that arrive together, and one in two parts", "[comm]") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const io::Descriptor here(ends[0]), there(ends[1]);
  set_blocking(there, false);
  FrameWriter writer;
  for (const std::string text : {"first", "", "third"}) writer.push({{}, text});
  CHECK(writer.waiting() == 3 * sizeof(FrameHeader) + 10);
  CHECK(writer.flush(there));
  CHECK(writer.waiting() == 0);
  FrameHeader header;
  header.length = 6;
  REQUIRE(tcp_write(there, &header, sizeof header));
  REQUIRE(tcp_write(there, "fou", 3));
  FrameReader reader;
  std::vector<Frame> frames;
  CHECK(reader.read(here, frames) == FrameReader::State::open);
  REQUIRE(frames.size() == 3);
  CHECK(*frames[0].payload + "," + *frames[1].payload + "," + *frames[2].payload == "first,,third");
  REQUIRE(tcp_write(there, "rth", 3));
  CHECK(reader.read(here, frames) == FrameReader::State::open);
  REQUIRE(frames.size() == 4);
  CHECK(*frames[3].payload == "fourth");
  // A message before an invalid one arrives.
  writer.push({{}, "fifth"});
  CHECK(writer.flush(there));
  header.length = std::uint32_t{1} << 31;
  REQUIRE(tcp_write(there, &header, sizeof header));
  for (int i = 0; i < 2; ++i) CHECK(reader.read(here, frames) == FrameReader::State::closed);
  REQUIRE(frames.size() == 5);
  CHECK(*frames[4].payload == "fifth");
  CHECK(reader.problem().starts_with("expected a message of at most 1073741824 bytes"));
}

// For larger sizes run tcp_test "[scale]".
TEST_CASE("tcp: a meeting of 64 ranks", "[comm]") {
  const auto results = on_ranks(64, [](const Group& group) {
    return std::to_string(group.all_gather_bytes(std::to_string(group.rank())).size());
  });
  CHECK(joined(results) == joined(std::vector<std::string>(64, "64")));
}

TEST_CASE("tcp: seconds of a meeting of 128 to 1,024 ranks and of an exchange", "[.][scale]") {
  using Clock = std::chrono::steady_clock;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;  // this process holds both ends of every connection
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
  for (const int size : {128, 256, 512, 1024}) {
    const auto begin = Clock::now();
    Clock::time_point met, exchanged;
    std::size_t open = 0;
    const auto results = on_ranks(size, [&](const Group& group) {
      group.barrier();
      if (group.rank() == 0) met = Clock::now(), open = descriptors();
      group.barrier();
      if (group.rank() == 0) exchanged = Clock::now();
      for (int i = 0; i < 10; ++i) group.all_gather_bytes(std::string(120, 'x'));
      if (group.rank() == 0)
        std::printf("exchange of 120 bytes a rank: %.4f s\n", seconds(Clock::now() - exchanged) / 10);
      return std::string("met");
    });
    std::printf("%d ranks: met after %.2f s, over after %.2f s, %zu descriptors for both ends\n", size,
                seconds(met - begin), seconds(Clock::now() - begin), open);
    CHECK(joined(results) == joined(std::vector<std::string>(static_cast<std::size_t>(size), "met")));
    CHECK(seconds(met - begin) < 5);
  }
}
