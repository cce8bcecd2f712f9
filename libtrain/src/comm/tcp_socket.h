// TCP connections between ranks: whole messages, and errors that name the peer. Calls block.
#pragma once

#include <chrono>
#include <string>
#include <utility>

namespace lt {

using TcpDeadline = std::chrono::steady_clock::time_point;

// Owns a file descriptor.
class TcpHandle {
 public:
  explicit TcpHandle(int fd = -1) : fd_(fd) {}
  TcpHandle(TcpHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  TcpHandle& operator=(TcpHandle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~TcpHandle();
  int get() const { return fd_; }

 private:
  int fd_;
};

class TcpLink {
 public:
  TcpLink() = default;
  TcpLink(TcpHandle handle, std::string peer);
  // Tries until the deadline, because the peer may start later. Throws CommError.
  static TcpLink connect(const std::string& host, int port, const std::string& peer, TcpDeadline deadline);

  // Throw CommError where the peer has gone.
  void send(const std::string& message) const;
  std::string receive() const;
  // Within the deadline, and of at most `most` bytes. Throws CommError where that is not what comes.
  std::string receive(std::size_t most, TcpDeadline deadline) const;
  // Of this end, as numbers: what others on the network may connect to.
  std::string local_address() const;
  void set_peer(std::string peer) { peer_ = std::move(peer); }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void read(char* to, std::size_t size, const TcpDeadline* deadline) const;
  std::string receive(std::size_t most, const TcpDeadline* deadline) const;

  TcpHandle handle_;
  std::string peer_;  // for errors
};

class TcpListener {
 public:
  // Port 0: one that is free. Throws CommError.
  explicit TcpListener(int port);
  int port() const;
  // Throws CommError that says what is `awaited` where nobody comes before the deadline.
  TcpLink accept(const std::string& awaited, TcpDeadline deadline) const;

 private:
  TcpHandle handle_;
};

}  // namespace lt
