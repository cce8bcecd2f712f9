// Messages between processes that have greeted each other: a header, then its payload. A reader's memory grows with the
// bytes received, not with the length that a header claims. Groups and the watchdog use them; the watchdog has its own
// kinds.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/tcp/tcp_socket.h"

namespace lt::comm {

// Messages (configurations, times, parts of a manifest) are a few megabytes; one longer than this is an error.
constexpr std::uint64_t kMostMessageBytes = std::uint64_t{1} << 30;

enum class FrameKind : std::uint32_t {
  open_channel,   // payload: the members of a group, by their ranks in the run
  close_channel,  // the group's first member no longer needs it
  gather,         // to rank 0: one member's text. From rank 0: the texts of all members, as pack_texts() writes them
  broadcast,      // to rank 0: the text of member `root`; other members send no text. From rank 0: that text
  all_to_all,     // to rank 0: one member's texts for all members. From rank 0: all members' texts for this one
  refusal,        // from rank 0: why it refuses the texts of an exchange
  failure,        // from rank 0: why an exchange failed
  loss,           // from rank 0: which rank is gone, so that the exchange cannot end
};

struct FrameHeader {
  FrameKind kind = FrameKind::gather;
  std::uint32_t root = 0;
  std::uint64_t channel = 0;   // of the group
  std::uint64_t sequence = 0;  // number of the exchange in its group
  std::uint32_t leader = 0;    // rank in the run of the group's first member, which opens the channel
  std::uint32_t length = 0;    // bytes of the payload
};
static_assert(sizeof(FrameHeader) == 32);

struct Frame {
  FrameHeader header;
  std::shared_ptr<const std::string> payload;  // shared, because one text goes to many ranks

  Frame() = default;
  // Throws CommError for a text of more than kMostMessageBytes.
  Frame(FrameHeader of, std::string text);
};

std::string pack_texts(const std::vector<const std::string*>& texts);
// Throws CommError if `bytes` is not exactly `count` texts.
std::vector<std::string> unpack_texts(const std::string& bytes, int count);

// Reads frames from one connection, blocking or not.
class FrameReader {
 public:
  // `most_bytes`: the longest valid payload. `last`: the highest valid kind.
  explicit FrameReader(std::uint64_t most_bytes = kMostMessageBytes, FrameKind last = FrameKind::loss)
      : most_bytes_(most_bytes), last_(last) {}

  enum class State { open, drained, closed };  // drained: open, but nothing is there now
  // Takes the bytes of one recv() and appends completed frames to `frames`, even if the connection then ends.
  State read(const io::Descriptor& handle, std::vector<Frame>& frames);
  // Why an invalid header ended the connection; empty if the peer closed it.
  const std::string& problem() const { return problem_; }

 private:
  // Returns the header at `at` and the size of its frame, or the size of a header if that is still incomplete. Sets
  // problem_ if the header is invalid.
  std::pair<FrameHeader, std::size_t> header_at(std::size_t at);

  std::uint64_t most_bytes_;
  FrameKind last_;
  std::string buffer_;  // starts with the first byte of a frame
  std::size_t filled_ = 0;
  std::string problem_;
};

// Writes frames to one non-blocking connection.
class FrameWriter {
 public:
  void push(Frame frame);
  bool is_empty() const { return queue_.empty(); }
  std::size_t waiting() const { return waiting_; }  // bytes
  // Sends as much as the connection accepts. Returns false if the peer is gone.
  bool flush(const io::Descriptor& handle);

 private:
  std::deque<Frame> queue_;
  std::size_t sent_ = 0;     // bytes of the first frame
  std::size_t waiting_ = 0;  // bytes that are not sent yet
};

// Writes the whole frame to a blocking connection. Returns false if the peer is gone.
bool write_frame(const io::Descriptor& handle, const Frame& frame);

}  // namespace lt::comm
