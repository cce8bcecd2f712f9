// Sockets: names to addresses, deadlines by poll(), messages with their length before them.
#include "comm/tcp_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include "libtrain/error.h"

namespace lt {
namespace {

constexpr std::chrono::milliseconds kRetry{100};
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;  // of a message: more is no message of ours

std::string system_error() { return std::strerror(errno); }

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);  // a slower link is no reason to fail
}

// Whether the descriptor can be read before the deadline.
bool is_readable(int fd, TcpDeadline deadline) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd entry{fd, POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) throw CommError("poll: " + system_error());
  }
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const std::string& host, int port, std::string& problem) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) problem = ::gai_strerror(code);
  return {found, &::freeaddrinfo};
}

}  // namespace

TcpHandle::~TcpHandle() {
  if (fd_ >= 0) ::close(fd_);
}

TcpLink::TcpLink(TcpHandle handle, std::string peer) : handle_(std::move(handle)), peer_(std::move(peer)) {
  set_option(handle_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(handle_.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
}

TcpLink TcpLink::connect(const std::string& host, int port, const std::string& peer, TcpDeadline deadline) {
  std::string problem;
  do {
    const Addresses addresses = addresses_of(host, port, problem);
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
      TcpHandle handle(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
      if (handle.get() >= 0 && ::connect(handle.get(), at->ai_addr, at->ai_addrlen) == 0) {
        return TcpLink(std::move(handle), peer);
      }
      problem = system_error();
    }
    std::this_thread::sleep_for(kRetry);
  } while (std::chrono::steady_clock::now() < deadline);
  throw CommError(fmt::format("{} at {}:{}: cannot connect: {}", peer, host, port, problem),
                  "MASTER_ADDR names the host of rank 0, MASTER_PORT a port that is free there");
}

void TcpLink::fail(const std::string& what) const {
  throw CommError(fmt::format("{}: {}", peer_, what), "its own error, or the launcher's, says why it ended");
}

void TcpLink::send(const std::string& message) const {
  const std::uint64_t length = message.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += message;
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = ::send(handle_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot send: " + system_error());
    sent += static_cast<std::size_t>(count);
  }
}

void TcpLink::read(char* to, std::size_t size, const TcpDeadline* deadline) const {
  for (std::size_t got = 0; got < size;) {
    if (deadline != nullptr && !is_readable(handle_.get(), *deadline)) fail("expected a message, none came in time");
    const ssize_t count = ::recv(handle_.get(), to + got, size - got, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot receive: " + system_error());
    if (count == 0) fail("has closed the connection");
    got += static_cast<std::size_t>(count);
  }
}

std::string TcpLink::receive(std::size_t most, const TcpDeadline* deadline) const {
  std::uint64_t length = 0;
  read(reinterpret_cast<char*>(&length), sizeof length, deadline);
  if (length > most) fail(fmt::format("expected a message of at most {} bytes, got one of {}", most, length));
  std::string message(length, '\0');
  read(message.data(), message.size(), deadline);
  return message;
}

std::string TcpLink::receive() const { return receive(kMostBytes, nullptr); }
std::string TcpLink::receive(std::size_t most, TcpDeadline deadline) const { return receive(most, &deadline); }

std::string TcpLink::local_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  if (::getsockname(handle_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    fail("its address: " + system_error());
  }
  return host.data();
}

// Both families on one socket where the system has IPv6.
TcpListener::TcpListener(int port) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6, any6.sin6_port = htons(static_cast<std::uint16_t>(port)), any6.sin6_addr = in6addr_any;
  sockaddr_in any4{};
  any4.sin_family = AF_INET, any4.sin_port = htons(static_cast<std::uint16_t>(port));
  any4.sin_addr.s_addr = htonl(INADDR_ANY);
  const auto listens = [&](int family, const void* address, socklen_t size) {
    handle_ = TcpHandle(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (handle_.get() < 0) return false;
    set_option(handle_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (family == AF_INET6) set_option(handle_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    return ::bind(handle_.get(), static_cast<const sockaddr*>(address), size) == 0 &&
           ::listen(handle_.get(), SOMAXCONN) == 0;
  };
  if (!listens(AF_INET6, &any6, sizeof any6) && !listens(AF_INET, &any4, sizeof any4)) {
    throw CommError(fmt::format("port {}: cannot listen: {}", port, system_error()), "MASTER_PORT: take another one");
  }
}

int TcpListener::port() const {
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  if (::getsockname(handle_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw CommError("the port of a listening socket: " + system_error());
  }
  return ntohs(address.sin6_port);  // at the same place in IPv4's
}

TcpLink TcpListener::accept(const std::string& awaited, TcpDeadline deadline) const {
  while (is_readable(handle_.get(), deadline)) {
    TcpHandle handle(::accept4(handle_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (handle.get() >= 0) return TcpLink(std::move(handle), "a peer that just connected");
    if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) throw CommError("accept: " + system_error());
  }
  throw CommError(awaited + ": expected a connection, none came in time", "is it running, and is the port open to it?");
}

}  // namespace lt
