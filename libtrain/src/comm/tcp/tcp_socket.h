// TCP sockets: resolving names, listening, connecting, reading and writing bytes.
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

// A connection ends after this long without incoming bytes and acknowledgements: the peer's host or the network is
// gone. The end of a peer's process shows at once, because its kernel closes the connection.
constexpr std::chrono::seconds kTcpVanished{30};

// Returns why the name has no address; empty if it has one, or if the look-up fails only temporarily.
std::string problem_of_name(const std::string& host);

// limited: a connection also ends if its peer reads nothing for kTcpVanished. unlimited: the program decides, as the
// watchdog does for a peer that a debugger has stopped.
enum class TcpPatience { limited, unlimited };

// Tries once. On failure, or after the deadline, returns nullopt and sets `problem` to the reason.
std::optional<io::Descriptor> tcp_connect(const std::string& host, int port, TcpDeadline deadline, std::string& problem,
                                          TcpPatience patience = TcpPatience::limited);

// Reads all `size` bytes. Returns closed if the peer is gone, late after the deadline.
enum class TcpRead { complete, closed, late };
TcpRead tcp_read(const io::Descriptor& handle, void* to, std::size_t size, TcpDeadline deadline);
// Returns false if the peer is gone.
bool tcp_write(const io::Descriptor& handle, const void* bytes, std::size_t size);

// If `blocks` is false, reads and writes return at once instead of waiting.
void set_blocking(const io::Descriptor& handle, bool blocks);

// The port of a listening socket; 0 if the descriptor is not one.
int listening_port(int fd);

// Listens only at the addresses of a name that belong to this machine.
class TcpListener {
 public:
  // Port 0: a free port, for a name with one address. Throws CommError if the name has no address of this machine, or
  // the port is taken.
  TcpListener(const std::string& host, int port);
  // Takes over a socket that another process has opened at a loopback address.
  explicit TcpListener(io::Descriptor listening);
  // Listens at a free port, at all addresses or only for processes of this host. Throws CommError.
  static TcpListener at_free_port(bool for_this_host);
  int port() const { return listening_port(handles_.front().get()); }
  // An address such as "127.0.1.1" if other hosts cannot reach this one by the name; otherwise empty.
  const std::string& only_loopback() const { return only_loopback_; }
  const std::vector<io::Descriptor>& handles() const { return handles_; }
  // Accepts a connection that waits at one of the handles, without blocking. Returns nullopt if none waits. Sets
  // `is_full` if this process can open no more descriptors.
  static std::optional<io::Descriptor> accept(const io::Descriptor& listening, bool& is_full,
                                              TcpPatience patience = TcpPatience::limited);

 private:
  TcpListener() = default;

  std::vector<io::Descriptor> handles_;
  std::string only_loopback_;
};

}  // namespace lt::comm
