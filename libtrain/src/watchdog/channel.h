// Connections that never block: frames of a kind and some bytes, kept until the peer takes them. What cannot be sent
// for long is dropped, because the peer is stopped or gone; the watchdog's own limits decide that.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/tcp_socket.h"

namespace lt::watchdog {

using Clock = std::chrono::steady_clock;

enum class FrameKind : std::uint8_t {
  hello,    // token and rank of who has connected
  welcome,  // the answer
  board,    // a rank's beat
  pulse,    // a monitor's beat
  verdict,  // message: the run ends
  told,     // the answer: what the rank had to say is said
  goodbye,  // "done" or "failed": the connection is about to close
};

struct Frame {
  FrameKind kind;
  std::string bytes;
};

class Channel {
 public:
  Channel() = default;
  explicit Channel(Descriptor connected);
  // Null where no connection comes about before the deadline; `problem` says why.
  static Channel connect(const std::string& address, int port, Clock::time_point deadline, std::string& problem);

  bool is_open() const { return handle_.get() >= 0; }
  int descriptor() const { return handle_.get(); }
  void close() { handle_ = Descriptor(); }

  void send(FrameKind kind, const std::string& bytes = {});
  // All that has come; where the peer has closed, or sent what is no frame, the channel is closed after it.
  std::vector<Frame> receive();
  // Waits for the next frame; none where the deadline or the end of the connection comes first.
  std::optional<Frame> await(Clock::time_point deadline);
  // Waits until all is handed to the system.
  void flush(Clock::time_point deadline);

 private:
  void wait_for(short events, Clock::time_point deadline) const;
  // False where the peer has gone, which receive() sees too.
  bool push();

  Descriptor handle_;
  std::string outgoing_, incoming_;
};

class Listener {
 public:
  // At a free port, for this host alone or for all. Throws CommError.
  explicit Listener(bool for_this_host);
  int port() const { return port_; }
  int descriptor() const { return handle_.get(); }
  // None where nobody waits.
  std::optional<Channel> accept();

 private:
  Descriptor handle_;
  int port_ = 0;
};

}  // namespace lt::watchdog
