// Resolves names, keeps deadlines with poll(), and sets the TCP timeouts by which a connection ends.
#include "comm/tcp/tcp_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "libtrain/error.h"

namespace lt::comm {
namespace {

constexpr int kBacklog = 4096;  // many ranks may connect at once; the kernel allows no more by default
constexpr std::chrono::seconds kOneTry{5};

std::string system_error() { return std::strerror(errno); }

void set_option(int fd, int level, int name, int value) {
  ::setsockopt(fd, level, name, &value, sizeof value);  // a slower link is no reason to fail
}

void set_options(int fd, TcpPatience patience) {
  constexpr int kIdleSeconds = 10, kBetweenProbes = 5, kProbes = 4;
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (patience == TcpPatience::unlimited) return;
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kBetweenProbes);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::chrono::milliseconds(kTcpVanished).count()));
}

// Whether one of `events` occurs before the deadline.
bool is_ready(int fd, short events, TcpDeadline deadline) {
  while (true) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, poll_ms_until(deadline));
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

// A connection to a port of this host at which nobody listens can get that very port for its own end.
bool is_connected_to_itself(const io::Descriptor& handle, std::string& problem) {
  sockaddr_storage own{}, peer{};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  const bool is_known = ::getsockname(handle.get(), reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
                        ::getpeername(handle.get(), reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0;
  if (!is_known || own_size != peer_size || std::memcmp(&own, &peer, own_size) != 0) return false;
  problem = std::strerror(ECONNREFUSED);
  return true;
}

// Whether a host's addresses have this one before it, too: two lines of /etc/hosts may name it.
bool is_repeated(const addrinfo* first, const addrinfo* address) {
  for (; first != address; first = first->ai_next) {
    if (first->ai_addrlen == address->ai_addrlen &&
        std::memcmp(first->ai_addr, address->ai_addr, address->ai_addrlen) == 0) {
      return true;
    }
  }
  return false;
}

bool connects(const io::Descriptor& handle, const addrinfo& address, TcpDeadline deadline, std::string& problem) {
  if (::connect(handle.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) {
    problem = system_error();
    return false;
  }
  if (!is_ready(handle.get(), POLLOUT, deadline)) {
    problem = "no answer";
    return false;
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(handle.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) problem = std::strerror(error);
  return error == 0 && !is_connected_to_itself(handle, problem);
}

bool is_loopback(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    const auto& ip = reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr;
    return ntohl(ip.s_addr) >> 24 == 127;
  }
  return address.ai_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr);
}

std::string text_of(const addrinfo& address) {
  std::array<char, NI_MAXHOST> text{};
  const int code =
      ::getnameinfo(address.ai_addr, address.ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return code == 0 ? text.data() : "?";
}

}  // namespace

int poll_ms_until(TcpDeadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

void set_blocking(const io::Descriptor& handle, bool blocks) {
  const int flags = ::fcntl(handle.get(), F_GETFL);
  ::fcntl(handle.get(), F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

std::string problem_of_name(const std::string& host) {
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  const Addresses freed(found, &::freeaddrinfo);
  return code == 0 || code == EAI_AGAIN ? "" : ::gai_strerror(code);
}

std::optional<io::Descriptor> tcp_connect(const std::string& host, int port, TcpDeadline deadline, std::string& problem,
                                          TcpPatience patience) {
  const Addresses addresses = addresses_of(host, port, problem);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    io::Descriptor handle(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol));
    const TcpDeadline try_until = std::min(deadline, std::chrono::steady_clock::now() + kOneTry);
    if (handle.get() < 0) {
      problem = system_error();
    } else if (connects(handle, *at, try_until, problem)) {
      set_options(handle.get(), patience);
      set_blocking(handle, true);
      return handle;
    }
  }
  return std::nullopt;
}

int listening_port(int fd) {
  int listens = 0;
  socklen_t size = sizeof listens;
  sockaddr_in6 address{};
  socklen_t address_size = sizeof address;
  const bool is_known = ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
                        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &address_size) == 0;
  return is_known ? ntohs(address.sin6_port) : 0;  // the same offset in sockaddr_in
}

TcpRead tcp_read(const io::Descriptor& handle, void* to, std::size_t size, TcpDeadline deadline) {
  for (std::size_t got = 0; got < size;) {
    if (!is_ready(handle.get(), POLLIN, deadline)) return TcpRead::late;
    const ssize_t count = ::recv(handle.get(), static_cast<char*>(to) + got, size - got, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return TcpRead::closed;
    got += static_cast<std::size_t>(count);
  }
  return TcpRead::complete;
}

bool tcp_write(const io::Descriptor& handle, const void* bytes, std::size_t size) {
  for (std::size_t sent = 0; sent < size;) {
    const ssize_t count = ::send(handle.get(), static_cast<const char*>(bytes) + sent, size - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

TcpListener::TcpListener(const std::string& host, int port) {
  std::string problem = "it has no address";
  const Addresses addresses = addresses_of(host, port, problem);
  bool reachable = false;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    if (is_repeated(addresses.get(), at)) continue;
    io::Descriptor handle(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol));
    if (handle.get() < 0) continue;  // this machine lacks that address family
    set_option(handle.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (at->ai_family == AF_INET6) set_option(handle.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (::bind(handle.get(), at->ai_addr, at->ai_addrlen) != 0) {
      if (errno == EADDRNOTAVAIL) {
        problem = text_of(*at) + " is no address of this host";
        continue;
      }
      throw CommError(fmt::format("{}:{}: cannot listen: {}", text_of(*at), port, system_error()),
                      "MASTER_PORT: take another one");
    }
    if (::listen(handle.get(), kBacklog) != 0) {
      throw CommError(fmt::format("{}:{}: cannot listen: {}", text_of(*at), port, system_error()),
                      "MASTER_PORT: take another one");
    }
    reachable = reachable || !is_loopback(*at);
    if (only_loopback_.empty()) only_loopback_ = text_of(*at);
    handles_.push_back(std::move(handle));
  }
  if (reachable) only_loopback_.clear();
  if (handles_.empty()) {
    throw CommError(fmt::format("rank 0 cannot listen at {}: {}", host, problem),
                    "MASTER_ADDR names the host of rank 0");
  }
}

TcpListener::TcpListener(io::Descriptor listening) : only_loopback_("127.0.0.1") {
  ::fcntl(listening.get(), F_SETFD, FD_CLOEXEC);
  handles_.push_back(std::move(listening));
}

TcpListener TcpListener::at_free_port(bool for_this_host) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6, any6.sin6_addr = in6addr_any;
  sockaddr_in v4{};
  v4.sin_family = AF_INET, v4.sin_addr.s_addr = htonl(for_this_host ? INADDR_LOOPBACK : INADDR_ANY);
  TcpListener made;
  const auto listens = [&](int family, const void* address, socklen_t size) {
    io::Descriptor handle(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (handle.get() < 0) return false;
    if (family == AF_INET6) set_option(handle.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (::bind(handle.get(), static_cast<const sockaddr*>(address), size) != 0 ||
        ::listen(handle.get(), kBacklog) != 0) {
      return false;
    }
    made.handles_.push_back(std::move(handle));
    return true;
  };
  if ((for_this_host || !listens(AF_INET6, &any6, sizeof any6)) && !listens(AF_INET, &v4, sizeof v4)) {
    throw CommError("cannot listen at a free port: " + system_error());
  }
  return made;
}

std::optional<io::Descriptor> TcpListener::accept(const io::Descriptor& listening, bool& is_full,
                                                  TcpPatience patience) {
  while (true) {
    io::Descriptor handle(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (handle.get() >= 0) {
      set_options(handle.get(), patience);
      return handle;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    is_full = errno == EMFILE || errno == ENFILE;
    return std::nullopt;
  }
}

}  // namespace lt::comm
