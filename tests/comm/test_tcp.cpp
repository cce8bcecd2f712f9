// Ranks that meet over TCP, here as threads of one process.
#include <fmt/format.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "comm/tcp_group.h"
#include "comm/tcp_socket.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;

namespace {

int free_port() { return TcpListener(0).port(); }

// Runs body(rank's world) on a thread for each rank; what it returns, by rank.
template <class Body>
std::vector<std::string> on_ranks(int size, Body&& body) {
  const int port = free_port();
  std::vector<std::string> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const Group group(make_tcp_world_backend("localhost", port, rank, size));
        results[static_cast<std::size_t>(rank)] = body(group);
      } catch (const Error& error) {
        results[static_cast<std::size_t>(rank)] = std::string("error: ") + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::string joined(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, "|")); }

}  // namespace

TEST_CASE("tcp: bytes of every rank, in order, and from any root", "[comm]") {
  for (const int size : {2, 3, 5}) {
    const auto results = on_ranks(size, [](const Group& group) {
      const std::string mine = "rank " + std::to_string(group.rank()) + std::string(1, '\0');
      std::string text = joined(group.all_gather_bytes(mine));
      for (int root = 0; root < group.size(); ++root) text += "," + group.broadcast_bytes(mine, root);
      const std::string large(3'000'000, static_cast<char>('a' + group.rank()));  // more than a socket holds
      text +=
          group.all_gather_bytes(large).back() == std::string(large.size(), static_cast<char>('a' + group.size() - 1))
              ? " large"
              : " wrong";
      group.barrier();
      return text;
    });
    std::vector<std::string> all;
    for (int rank = 0; rank < size; ++rank) all.push_back("rank " + std::to_string(rank) + std::string(1, '\0'));
    for (const std::string& result : results)
      CHECK(result == joined(all) + "," + fmt::format("{}", fmt::join(all, ",")) + " large");
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

TEST_CASE("tcp: tensors on the CPU are refused, and who waits for a rank that has gone is told", "[comm]") {
  const auto results = on_ranks(3, [](const Group& group) -> std::string {
    std::string refused = "taken";
    try {
      const Tensor tensor = Tensor::zeros({4}, DType::f32);
      group.broadcast("tensor", tensor, 0).wait();
    } catch (const UsageError&) {
      refused = "refused";
    }
    if (group.rank() == 2) return refused;
    group.all_gather_bytes(refused);
    return "not told";
  });
  CHECK(results[2] == "refused");
  CHECK(results[0] == "error: group world: rank 2: has closed the connection");
  CHECK(results[1] == "error: group world: rank 0: has closed the connection");
}

namespace {

// Connects and sends these bytes as they are; the connection stays until the result is gone.
std::unique_ptr<int, void (*)(int*)> stranger(int port, const std::string& bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET, address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  while (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::this_thread::yield();
  CHECK(::send(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return {new int(fd), [](int* owned) { ::close(*owned), delete owned; }};
}

}  // namespace

TEST_CASE("tcp: strangers at the port do not disturb", "[comm]") {
  const int port = free_port();
  std::string at_rank_0;
  std::thread rank_0([&] {
    const Group group(make_tcp_world_backend("localhost", port, 0, 2));
    at_rank_0 = joined(group.all_gather_bytes("zero"));
  });
  stranger(port, "");  // connects and goes
  const auto silent = stranger(port, "abc"), talks = stranger(port, "GET / HTTP/1.1\r\n\r\n");
  const Group group(make_tcp_world_backend("localhost", port, 1, 2));
  CHECK(joined(group.all_gather_bytes("one")) == "zero|one");
  rank_0.join();
  CHECK(at_rank_0 == "zero|one");
}

TEST_CASE("tcp: ranks that do not come are named", "[comm]") {
  const int port = free_port();
  const auto refusal = [&](int rank, std::chrono::seconds patience) -> std::string {
    try {
      make_tcp_world_backend("localhost", port, rank, 2, patience);
    } catch (const CommError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(refusal(0, std::chrono::seconds(1)) == "group world: rank 1 of 2: expected a connection, none came in time");
  CHECK(refusal(1, std::chrono::seconds(0))
            .starts_with(fmt::format("group world: rank 0 at localhost:{}: cannot connect: ", port)));
}
