// Non-blocking sockets: 4 bytes of length, 1 of kind, then the frame's bytes. They are not comm's sockets, which close
// when a peer takes nothing for 30 s: the watchdog itself judges a peer that a debugger holds.
#include "watchdog/channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "libtrain/error.h"

namespace lt::watchdog {
namespace {

constexpr std::size_t kHeader = 5, kLongestFrame = 256 << 10, kMostOutgoing = 1 << 20;
constexpr int kSocketFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;

std::string system_error() { return std::strerror(errno); }

void set_option(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof value); }

}  // namespace

Channel::Channel(Descriptor connected) : handle_(std::move(connected)) {
  set_option(handle_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
}

Channel Channel::connect(const std::string& address, int port, Clock::time_point deadline, std::string& problem) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM, hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  if (const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0) {
    problem = ::gai_strerror(code);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Descriptor fd(::socket(found->ai_family, SOCK_STREAM | kSocketFlags, 0));
  if (fd.get() < 0 || (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)) {
    problem = system_error();
    return {};
  }
  pollfd entry{fd.get(), POLLOUT, 0};
  if (::poll(&entry, 1, poll_ms_until(deadline)) <= 0) {
    problem = "no answer";
    return {};
  }
  int code = 0;
  socklen_t size = sizeof code;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
  if (code != 0) {
    problem = std::strerror(code);
    return {};
  }
  return Channel(std::move(fd));
}

void Channel::send(FrameKind kind, const std::string& bytes) {
  if (!is_open() || outgoing_.size() + bytes.size() > kMostOutgoing) return;
  const auto length = static_cast<std::uint32_t>(bytes.size());
  outgoing_.append(reinterpret_cast<const char*>(&length), sizeof length);
  outgoing_ += static_cast<char>(kind);
  outgoing_ += bytes;
  push();
}

bool Channel::push() {
  while (is_open() && !outgoing_.empty()) {
    const ssize_t sent = ::send(handle_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    outgoing_.erase(0, static_cast<std::size_t>(sent));
  }
  return is_open();
}

std::vector<Frame> Channel::receive() {
  push();
  bool ended = false;
  for (std::array<char, 16384> buffer; is_open() && !ended;) {
    const ssize_t got = ::recv(handle_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    ended = got <= 0;
    if (got > 0) incoming_.append(buffer.data(), static_cast<std::size_t>(got));
    if (incoming_.size() > 2 * kLongestFrame) break;  // reads the rest next time
  }
  std::vector<Frame> frames;
  std::size_t at = 0;
  while (incoming_.size() - at >= kHeader) {
    std::uint32_t length = 0;
    std::memcpy(&length, incoming_.data() + at, sizeof length);
    ended |= length > kLongestFrame;
    if (length > kLongestFrame || incoming_.size() - at - kHeader < length) break;
    frames.push_back({static_cast<FrameKind>(incoming_[at + 4]), incoming_.substr(at + kHeader, length)});
    at += kHeader + length;
  }
  incoming_.erase(0, at);
  if (ended) close();
  return frames;
}

void Channel::wait_for(short events, Clock::time_point deadline) const {
  pollfd entry{handle_.get(), events, 0};
  ::poll(&entry, 1, poll_ms_until(deadline));  // callers check afterwards, even if a signal ended it
}

std::optional<Frame> Channel::await(Clock::time_point deadline) {
  while (is_open() && Clock::now() < deadline) {
    wait_for(POLLIN, deadline);
    const std::vector<Frame> frames = receive();
    if (!frames.empty()) return frames.front();
  }
  return std::nullopt;
}

void Channel::flush(Clock::time_point deadline) {
  while (push() && !outgoing_.empty() && Clock::now() < deadline) wait_for(POLLOUT, deadline);
}

Listener::Listener(bool for_this_host) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6, any6.sin6_addr = in6addr_any;
  sockaddr_in v4{};
  v4.sin_family = AF_INET, v4.sin_addr.s_addr = htonl(for_this_host ? INADDR_LOOPBACK : INADDR_ANY);
  const auto listens = [&](int family, const void* address, socklen_t size) {
    handle_ = Descriptor(::socket(family, SOCK_STREAM | kSocketFlags, 0));
    if (handle_.get() < 0) return false;
    if (family == AF_INET6) set_option(handle_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    return ::bind(handle_.get(), static_cast<const sockaddr*>(address), size) == 0 &&
           ::listen(handle_.get(), SOMAXCONN) == 0;
  };
  if ((for_this_host || !listens(AF_INET6, &any6, sizeof any6)) && !listens(AF_INET, &v4, sizeof v4)) {
    throw CommError("the watchdog cannot listen: " + system_error());
  }
  sockaddr_in6 bound{};
  socklen_t size = sizeof bound;
  ::getsockname(handle_.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  port_ = ntohs(bound.sin6_port);  // the same offset in sockaddr_in
}

std::optional<Channel> Listener::accept() {
  Descriptor fd(::accept4(handle_.get(), nullptr, nullptr, kSocketFlags));
  if (fd.get() < 0) return std::nullopt;
  return Channel(std::move(fd));
}

}  // namespace lt::watchdog
