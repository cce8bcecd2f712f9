// Sockets of TCP: descriptors, names to addresses, who listens and who connects. What ranks say is not known here.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "io/descriptor.h"

namespace lt {

using TcpDeadline = std::chrono::steady_clock::time_point;

// The time that is left, for poll(): at least 0, rounded up.
int poll_ms_until(TcpDeadline deadline);

// A connection over which nothing came, nor was confirmed, for so long has ended: its host or the network is gone. An
// ended process is found at once, because its kernel says so.
constexpr std::chrono::seconds kTcpVanished{30};

// One try. Nothing where it did not succeed by the deadline; `problem` then says why.
std::optional<Descriptor> tcp_connect(const std::string& host, int port, TcpDeadline deadline, std::string& problem);

// Reads all of `size` bytes, or says why not.
enum class TcpRead { complete, closed, late };
TcpRead tcp_read(const Descriptor& handle, void* to, std::size_t size, TcpDeadline deadline);
// False where the peer has gone.
bool tcp_write(const Descriptor& handle, const void* bytes, std::size_t size);

// The option that makes calls return at once where they would wait.
void set_blocking(const Descriptor& handle, bool blocks);

// Listens at the addresses of this machine that a name has, and at no others.
class TcpListener {
 public:
  // Port 0: one that is free, for a name with one address. Throws CommError where the name has no address here, or the
  // port is taken.
  TcpListener(const std::string& host, int port);
  int port() const;
  // "127.0.1.1", where no other host can reach this one by the name; otherwise empty.
  const std::string& only_loopback() const { return only_loopback_; }
  const std::vector<Descriptor>& handles() const { return handles_; }
  // A connection that waits at one of the handles; does not block. Nothing where there is none. Sets `is_full` where
  // this process can have no more descriptors.
  static std::optional<Descriptor> accept(const Descriptor& listening, bool& is_full);

 private:
  std::vector<Descriptor> handles_;
  std::string only_loopback_;
};

}  // namespace lt
