// Converts frames to bytes and back.
#include "comm/tcp/tcp_frames.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "libtrain/error.h"

namespace lt::comm {
namespace {

constexpr std::size_t kLeastPiece = std::size_t{1} << 12, kPiece = std::size_t{1} << 18;  // bytes that one recv() takes

// Calls sendmsg() with the rest of a frame after `sent` bytes, and returns its result.
ssize_t send_rest(const io::Descriptor& handle, const Frame& frame, std::size_t sent) {
  std::array<iovec, 2> parts{};
  std::size_t count = 0;
  if (sent < sizeof frame.header) {
    auto* const header = reinterpret_cast<char*>(const_cast<FrameHeader*>(&frame.header));
    parts[count++] = {header + sent, sizeof frame.header - sent};
    sent = sizeof frame.header;
  }
  const std::size_t at = sent - sizeof frame.header;
  parts[count++] = {const_cast<char*>(frame.payload->data()) + at, frame.payload->size() - at};
  msghdr message{};
  message.msg_iov = parts.data(), message.msg_iovlen = count;
  return ::sendmsg(handle.get(), &message, MSG_NOSIGNAL);
}

std::size_t size_of(const Frame& frame) { return sizeof frame.header + frame.payload->size(); }

}  // namespace

Frame::Frame(FrameHeader of, std::string text)
    : header(of), payload(std::make_shared<const std::string>(std::move(text))) {
  if (payload->size() > kMostMessageBytes) {
    throw CommError(fmt::format("expected a message of at most {} bytes, got {}", kMostMessageBytes, payload->size()));
  }
  header.length = static_cast<std::uint32_t>(payload->size());
}

std::string pack_texts(const std::vector<const std::string*>& texts) {
  std::string bytes;
  for (const std::string* text : texts) {
    const std::uint64_t length = text->size();
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += *text;
  }
  return bytes;
}

std::vector<std::string> unpack_texts(const std::string& bytes, int count) {
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (int i = 0; i < count; ++i) {
    std::uint64_t length = 0;
    if (bytes.size() - at < sizeof length) break;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    at += sizeof length;
    if (bytes.size() - at < length) break;
    texts.push_back(bytes.substr(at, length));
    at += length;
  }
  if (static_cast<int>(texts.size()) != count || at != bytes.size()) {
    throw CommError(fmt::format("expected the texts of {} ranks, got {} bytes that are not", count, bytes.size()));
  }
  return texts;
}

std::pair<FrameHeader, std::size_t> FrameReader::header_at(std::size_t at) {
  FrameHeader header;
  if (filled_ - at < sizeof header) return {header, sizeof header};
  std::memcpy(&header, buffer_.data() + at, sizeof header);
  if (header.length > most_bytes_ || header.kind > last_) {
    problem_ =
        fmt::format("expected a message of at most {} bytes and a kind up to {}, got {} bytes of kind {}", most_bytes_,
                    static_cast<unsigned>(last_), header.length, static_cast<unsigned>(header.kind));
  }
  return {header, sizeof header + header.length};
}

FrameReader::State FrameReader::read(const io::Descriptor& handle, std::vector<Frame>& frames) {
  if (!problem_.empty()) return State::closed;
  const std::size_t missing = header_at(0).second - filled_;
  buffer_.resize(filled_ + std::clamp(missing, kLeastPiece, kPiece));
  const ssize_t count = ::recv(handle.get(), buffer_.data() + filled_, buffer_.size() - filled_, 0);
  if (count < 0 && errno == EINTR) return State::open;
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return State::drained;
  if (count <= 0) return State::closed;
  filled_ += static_cast<std::size_t>(count);
  std::size_t at = 0;
  for (;;) {
    const auto [header, bytes] = header_at(at);
    if (!problem_.empty()) return State::closed;
    if (filled_ - at < bytes) break;
    frames.emplace_back(header, buffer_.substr(at + sizeof header, header.length));
    at += bytes;
  }
  filled_ -= at;
  if (at > 0) std::string(buffer_, at, filled_).swap(buffer_);  // gives the memory of a long message back
  return State::open;
}

void FrameWriter::push(Frame frame) {
  waiting_ += size_of(frame);
  queue_.push_back(std::move(frame));
}

bool FrameWriter::flush(const io::Descriptor& handle) {
  while (!queue_.empty()) {
    const ssize_t count = send_rest(handle, queue_.front(), sent_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    sent_ += static_cast<std::size_t>(count), waiting_ -= static_cast<std::size_t>(count);
    if (sent_ < size_of(queue_.front())) continue;
    queue_.pop_front();
    sent_ = 0;
  }
  return true;
}

bool write_frame(const io::Descriptor& handle, const Frame& frame) {
  for (std::size_t sent = 0; sent < size_of(frame);) {
    const ssize_t count = send_rest(handle, frame, sent);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace lt::comm
