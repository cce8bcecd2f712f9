// Connections that never block. They carry frames of a kind and some bytes, kept until the peer takes them. Frames that
// cannot be sent for long are dropped, because the peer is stopped or gone; the watchdog's own limits decide that.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/tcp/tcp_socket.h"
#include "comm/value_exchange.h"

namespace lt::watchdog {

using Clock = std::chrono::steady_clock;

enum class FrameKind : std::uint8_t {
  hello,    // the greeting's messages: comm/tcp_greeting.h
  answer,   //
  proof,    //
  welcome,  //
  board,    // a rank's beat
  pulse,    // a monitor's beat
  verdict,  // message: the run ends
  told,     // the answer: the rank has written its report
  goodbye,  // "done" or "failed": the connection is about to close
};

struct Frame {
  FrameKind kind;
  std::string bytes;
};

// A message of a fixed size. Empty if the frame is of another kind or size.
template <class Message>
std::optional<Message> message_in(const Frame& frame, FrameKind kind) {
  return frame.kind == kind ? value_of<Message>(frame.bytes) : std::nullopt;
}

class Channel {
 public:
  Channel() = default;
  explicit Channel(Descriptor connected);
  // Returns a closed channel if no connection is made before the deadline; `problem` says why.
  static Channel connect(const std::string& address, int port, Clock::time_point deadline, std::string& problem);

  bool is_open() const { return handle_.get() >= 0; }
  int descriptor() const { return handle_.get(); }
  void close() { handle_ = Descriptor(); }

  void send(FrameKind kind, const std::string& bytes = {});
  // All frames that have arrived. Closes the channel if the peer has closed it or sent an invalid frame.
  std::vector<Frame> receive();
  // Waits for the next frame; empty if the deadline or the end of the connection comes first.
  std::optional<Frame> await(Clock::time_point deadline);
  // Waits until everything is handed to the system, at most until the deadline.
  void flush(Clock::time_point deadline);

 private:
  void wait_for(short events, Clock::time_point deadline) const;
  // Returns false if the peer has gone, which receive() sees too.
  bool push();

  Descriptor handle_;
  std::string outgoing_, incoming_;
};

class Listener {
 public:
  // Listens at a free port, for this host only or for all. Throws CommError.
  explicit Listener(bool for_this_host);
  int port() const { return port_; }
  int descriptor() const { return handle_.get(); }
  // Empty if no connection waits.
  std::optional<Channel> accept();

 private:
  Descriptor handle_;
  int port_ = 0;
};

}  // namespace lt::watchdog
