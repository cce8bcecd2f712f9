// Non-blocking connections between watchdogs. They carry frames (comm/tcp/tcp_frames.h), which wait until the peer
// reads them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/tcp/tcp_frames.h"
#include "io/descriptor.h"

namespace lt::watchdog {

using Clock = std::chrono::steady_clock;

enum class Notice : std::uint32_t {
  status,   // a rank's periodic message: its status
  pulse,    // a monitor's periodic message
  verdict,  // the message with which the run ends
  told,     // answer to a verdict: the rank has written its report
  goodbye,  // "done" or "failed": the connection is about to close
};

struct Message {
  Notice kind;
  std::string bytes;
};

class Channel {
 public:
  Channel() = default;
  explicit Channel(io::Descriptor connected);

  bool is_open() const { return handle_.get() >= 0; }
  int descriptor() const { return handle_.get(); }
  void close() { handle_ = io::Descriptor(); }

  // Drops the message if more than kMostWaiting bytes would wait then. The peer is stopped or gone in that case; the
  // watchdog's limits decide which.
  void send(Notice kind, const std::string& bytes = {});
  // Returns all frames that have arrived. Closes the channel if the peer has closed it or sent an invalid frame.
  std::vector<Message> receive();
  // Waits for the end of the connection, at most until the deadline, and discards incoming frames.
  void await_end(Clock::time_point deadline);
  // Waits until the system has taken all bytes, at most until the deadline.
  void flush(Clock::time_point deadline);

 private:
  void wait_for(short events, Clock::time_point deadline) const;
  // Returns false if the peer is gone, which receive() notices too.
  bool push();

  static constexpr std::uint64_t kLongestFrame = 256 << 10, kMostWaiting = 1 << 20;  // bytes

  io::Descriptor handle_;
  comm::FrameReader reader_{kLongestFrame, static_cast<comm::FrameKind>(Notice::goodbye)};
  comm::FrameWriter writer_;
};

}  // namespace lt::watchdog
