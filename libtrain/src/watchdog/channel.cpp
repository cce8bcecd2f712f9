// Non-blocking sockets: 4 bytes of length, 1 of kind, then the frame's bytes.
#include "watchdog/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "comm/tcp/tcp_socket.h"

namespace lt::watchdog {
namespace {

constexpr std::size_t kHeader = 5, kLongestFrame = 256 << 10, kMostOutgoing = 1 << 20;

}  // namespace

Channel::Channel(io::Descriptor connected) : handle_(std::move(connected)) { comm::set_blocking(handle_, false); }

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
  ::poll(&entry, 1, comm::poll_ms_until(deadline));  // callers check afterwards, even if a signal ended it
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

}  // namespace lt::watchdog
