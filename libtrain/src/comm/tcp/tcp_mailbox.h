// Hands answers from the thread that reads a process's connections to the threads that wait for them, by channel.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "comm/tcp/tcp_frames.h"
#include "libtrain/error.h"

namespace lt::comm {

constexpr const char* kTcpGone = "has closed the connection";

class TcpMailbox {
 public:
  void put(Frame frame) {
    const std::lock_guard lock(mutex_);
    frames_.insert_or_assign(frame.header.channel, std::move(frame));
    arrived_.notify_all();
  }
  // No more frames will arrive; take() then throws.
  void close(const std::string& why) {
    const std::lock_guard lock(mutex_);
    closed_ = why;
    arrived_.notify_all();
  }
  // Waits for the channel's frame. Throws UsageError for a FrameKind::refusal, and BrokenCommError for a
  // FrameKind::failure or FrameKind::loss, and if the mailbox is closed.
  Frame take(std::uint64_t channel) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return frames_.count(channel) > 0 || closed_; });
    const auto found = frames_.find(channel);
    if (found == frames_.end()) throw BrokenCommError(*closed_, kHint);
    Frame frame = std::move(found->second);
    frames_.erase(found);
    lock.unlock();
    if (frame.header.kind == FrameKind::refusal) throw UsageError("comm", *frame.payload);
    if (frame.header.kind == FrameKind::loss || frame.header.kind == FrameKind::failure) {
      throw BrokenCommError(*frame.payload, kHint);
    }
    return frame;
  }

 private:
  static constexpr const char* kHint = "its own error, or the launcher's, says why it ended";

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::uint64_t, Frame> frames_;
  std::optional<std::string> closed_;
};

}  // namespace lt::comm
