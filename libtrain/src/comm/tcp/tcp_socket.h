// TCP sockets: resolving names, listening, connecting, reading and writing. The ranks' messages are unknown here.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "io/descriptor.h"

namespace lt::comm {

using TcpDeadline = std::chrono::steady_clock::time_point;

// The milliseconds left, for poll(): at least 0, rounded up.
int poll_ms_until(TcpDeadline deadline);

// A connection on which nothing arrived and nothing was acknowledged for this long has ended: its host or the network
// is gone. An ended process is found at once, because its kernel closes the connection.
constexpr std::chrono::seconds kTcpVanished{30};

// Why the name has no address; empty if it has one, or if it cannot be looked up at the moment.
std::string problem_of_name(const std::string& host);

// What ends a connection whose peer takes nothing: kTcpVanished, or the program that uses it. The watchdog judges a
// peer that a debugger holds itself.
enum class TcpPatience { limited, unlimited };

// Tries once. Returns empty if it did not succeed by the deadline; `problem` then says why.
std::optional<io::Descriptor> tcp_connect(const std::string& host, int port, TcpDeadline deadline, std::string& problem,
                                          TcpPatience patience = TcpPatience::limited);

// Reads all of `size` bytes, or returns why not.
enum class TcpRead { complete, closed, late };
TcpRead tcp_read(const io::Descriptor& handle, void* to, std::size_t size, TcpDeadline deadline);
// Returns false if the peer has gone.
bool tcp_write(const io::Descriptor& handle, const void* bytes, std::size_t size);

// If `blocks` is false, calls return at once instead of waiting.
void set_blocking(const io::Descriptor& handle, bool blocks);

// The port of a listening socket; 0 if the descriptor is none.
int listening_port(int fd);

// Listens only at those addresses of a name that belong to this machine.
class TcpListener {
 public:
  // Port 0: picks a free one, for a name with one address. Throws CommError if the name has no address here, or the
  // port is taken.
  TcpListener(const std::string& host, int port);
  // Takes over a socket that another process has opened, at an address for this host alone.
  explicit TcpListener(io::Descriptor listening);
  // Listens at a free port, at all addresses or for this host alone. Throws CommError.
  static TcpListener at_free_port(bool for_this_host);
  int port() const { return listening_port(handles_.front().get()); }
  // An address such as "127.0.1.1" if other hosts cannot reach this one by the name; otherwise empty.
  const std::string& only_loopback() const { return only_loopback_; }
  const std::vector<io::Descriptor>& handles() const { return handles_; }
  // Takes a connection that waits at one of the handles; does not block. Returns empty if none waits. Sets `is_full` if
  // this process can open no more descriptors.
  static std::optional<io::Descriptor> accept(const io::Descriptor& listening, bool& is_full,
                                              TcpPatience patience = TcpPatience::limited);

 private:
  TcpListener() = default;

  std::vector<io::Descriptor> handles_;
  std::string only_loopback_;
};

}  // namespace lt::comm
