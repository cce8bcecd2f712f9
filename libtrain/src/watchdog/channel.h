// Connections that never block. They carry frames (comm/tcp/tcp_frames.h), kept until the peer takes them.
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
  board,    // a rank's beat
  pulse,    // a monitor's beat
  verdict,  // message: the run ends
  told,     // the answer: the rank has written its report
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

  // Drops the message if more than kMostWaiting bytes would then wait: the peer is stopped or gone, which the
  // watchdog's limits decide.
  void send(Notice kind, const std::string& bytes = {});
  // All frames that have arrived. Closes the channel if the peer has closed it or sent an invalid frame.
  std::vector<Message> receive();
  // Waits for the end of the connection, at most until the deadline, and discards what arrives meanwhile.
  void await_end(Clock::time_point deadline);
  // Waits until everything is handed to the system, at most until the deadline.
  void flush(Clock::time_point deadline);

 private:
  void wait_for(short events, Clock::time_point deadline) const;
  // Returns false if the peer has gone, which receive() sees too.
  bool push();

  static constexpr std::uint64_t kLongestFrame = 256 << 10, kMostWaiting = 1 << 20;  // bytes

  io::Descriptor handle_;
  comm::FrameReader reader_{kLongestFrame, static_cast<comm::FrameKind>(Notice::goodbye)};
  comm::FrameWriter writer_;
};

}  // namespace lt::watchdog
