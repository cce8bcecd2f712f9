// Runs ranks that meet over TCP as threads of one process.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "comm/tcp/tcp_group.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"

namespace lt_test {

// A port that nobody listens at. It is below those that Linux gives to connections and to listeners at port 0, one of
// which could take it before the caller does. Another process of tests begins elsewhere, and no port is given twice.
inline int free_port() {
  constexpr int kFirst = 20000, kPorts = 11987, kPerProcess = 60;  // prime: ids that differ by 200 begin elsewhere too
  static int given = 0;
  for (int tried = 0; tried < kPorts; ++tried) {
    const int port = kFirst + (::getpid() % kPorts * kPerProcess + given++) % kPorts;
    try {
      return lt::comm::TcpListener("127.0.0.1", port).port();
    } catch (const lt::CommError&) {  // somebody listens there
    }
  }
  throw lt::CommError("127.0.0.1: every port of the tests is taken");
}

inline lt::comm::TokenSource source_of(const lt::comm::MeetingToken& token) {
  return {[token] { return token; }, false, "LTRAIN_TOKEN"};
}

inline constexpr lt::comm::MeetingToken kToken{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

inline lt::comm::TcpMeeting meeting_at(int port, int rank, int size) {
  return {"127.0.0.1", port, rank, size, true, source_of(kToken)};
}

inline std::string joined(const std::vector<std::string>& texts, const char* between = "|") {
  return fmt::format("{}", fmt::join(texts, between));
}

// Runs body(rank's world) on one thread per rank. Returns its results by rank; for a rank that threw, "error: " and the
// message.
template <class Body>
std::vector<std::string> on_ranks(int size, Body&& body) {
  const int port = free_port();
  std::vector<std::string> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const lt::Group group(lt::comm::make_tcp_world_backend(meeting_at(port, rank, size)));
        results[static_cast<std::size_t>(rank)] = body(group);
      } catch (const lt::Error& error) {
        results[static_cast<std::size_t>(rank)] = std::string("error: ") + error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace lt_test
