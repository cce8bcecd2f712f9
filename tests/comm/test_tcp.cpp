// Ranks that meet over TCP, here as threads of one process.
#include <fmt/format.h>

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

TEST_CASE("tcp: strangers do not disturb, and ranks that do not come are named", "[comm]") {
  const int port = free_port();
  std::thread stranger([port] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    TcpLink::connect("localhost", port, "rank 0", deadline).send("GET / HTTP/1.1");
  });
  std::string message;
  try {
    make_tcp_world_backend("localhost", port, 0, 2, std::chrono::seconds(1));
  } catch (const CommError& error) {
    message = error.what();
  }
  stranger.join();
  CHECK(message == "group world: rank 1 of 2: expected a connection, none came in time");
  message.clear();
  try {
    make_tcp_world_backend("localhost", port, 1, 2, std::chrono::seconds(0));
  } catch (const CommError& error) {
    message = error.what();
  }
  CHECK(message.starts_with(fmt::format("group world: rank 0 at localhost:{}: cannot connect: ", port)));
}
