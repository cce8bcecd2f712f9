// Sends and receives frames of comm/tcp. An invalid frame ends the connection.
#include "watchdog/channel.h"

#include <poll.h>

#include <utility>

#include "comm/tcp/tcp_socket.h"

namespace lt::watchdog {
namespace {

constexpr int kMostReads = 64;  // at a time, so that a peer that never pauses holds nobody up

}  // namespace

Channel::Channel(io::Descriptor connected) : handle_(std::move(connected)) { comm::set_blocking(handle_, false); }

void Channel::send(Notice kind, const std::string& bytes) {
  if (!is_open() || writer_.waiting() + bytes.size() > kMostWaiting) return;
  writer_.push({{.kind = static_cast<comm::FrameKind>(kind)}, bytes});
  push();
}

bool Channel::push() { return is_open() && writer_.flush(handle_); }

std::vector<Message> Channel::receive() {
  push();
  std::vector<comm::Frame> arrived;
  auto state = is_open() ? comm::FrameReader::State::open : comm::FrameReader::State::drained;
  for (int reads = 0; state == comm::FrameReader::State::open && reads < kMostReads; ++reads) {
    state = reader_.read(handle_, arrived);
  }
  if (state == comm::FrameReader::State::closed) close();
  std::vector<Message> frames;
  for (const comm::Frame& frame : arrived) {
    frames.push_back({static_cast<Notice>(frame.header.kind), *frame.payload});
  }
  return frames;
}

void Channel::wait_for(short events, Clock::time_point deadline) const {
  pollfd entry{handle_.get(), events, 0};
  ::poll(&entry, 1, comm::poll_ms_until(deadline));  // callers check afterwards, even if a signal ended it
}

void Channel::await_end(Clock::time_point deadline) {
  while (is_open() && Clock::now() < deadline) {
    wait_for(POLLIN, deadline);
    receive();
  }
}

void Channel::flush(Clock::time_point deadline) {
  while (push() && !writer_.is_empty() && Clock::now() < deadline) wait_for(POLLOUT, deadline);
}

}  // namespace lt::watchdog
