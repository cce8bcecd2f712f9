// Messages between ranks that have met: a header, then its payload. They are read as they arrive, so memory grows with
// what has come and not with what a header claims.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/tcp_socket.h"

namespace lt {

// Messages (configurations, times, parts of a manifest) are a few megabytes; a longer one than this is an error.
constexpr std::uint64_t kMostMessageBytes = std::uint64_t{1} << 30;

enum class FrameKind : std::uint32_t {
  open_channel,   // payload: the members of a group, by their ranks in the run
  close_channel,  // its first member needs it no more
  gather,         // to rank 0: one member's text. From rank 0: those of all members, pack_texts()
  broadcast,      // to rank 0: the text of member `root`, the others' are empty. From rank 0: that text
  failure,        // from rank 0: why an exchange did not come about
};

struct FrameHeader {
  FrameKind kind = FrameKind::gather;
  std::uint32_t root = 0;
  std::uint64_t channel = 0;   // of the group
  std::uint64_t sequence = 0;  // of the exchange in its group
  std::uint32_t leader = 0;    // the group's first member, who opens the channel: its rank in the run
  std::uint32_t length = 0;    // of the payload
};
static_assert(sizeof(FrameHeader) == 32);

struct Frame {
  FrameHeader header;
  std::shared_ptr<const std::string> payload;  // shared: one text goes to many

  Frame() = default;
  Frame(FrameHeader of, std::string text) : header(of), payload(std::make_shared<const std::string>(std::move(text))) {
    header.length = static_cast<std::uint32_t>(payload->size());
  }
};

std::string pack_texts(const std::vector<const std::string*>& texts);
// Throws CommError where it is not that many texts.
std::vector<std::string> unpack_texts(const std::string& bytes, int count);

// Frames from one connection, blocking or not.
class FrameReader {
 public:
  enum class State { open, closed };
  // Takes what one recv() gives, and appends the frames that are complete to `frames`. Throws CommError for a header
  // that is none of ours.
  State read(const Descriptor& handle, std::vector<Frame>& frames);

 private:
  std::string buffer_;  // from the beginning of a frame
  std::size_t filled_ = 0, needed_ = sizeof(FrameHeader);
};

// Frames to one connection that does not block.
class FrameWriter {
 public:
  void push(Frame frame) { queue_.push_back(std::move(frame)); }
  bool is_empty() const { return queue_.empty(); }
  // Sends what the connection takes. False where the peer has gone.
  bool flush(const Descriptor& handle);

 private:
  std::deque<Frame> queue_;
  std::size_t sent_ = 0;  // bytes of the first
};

// The whole frame to a connection that blocks. False where the peer has gone.
bool write_frame(const Descriptor& handle, const Frame& frame);

}  // namespace lt
