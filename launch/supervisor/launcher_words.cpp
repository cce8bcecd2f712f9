// Recognises the frames of Open MPI 4.1. Messages that another version words differently pass unchanged.
#include "launch/supervisor/launcher_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lt::launch {
namespace {

constexpr std::size_t kRule = 74;            // dashes
constexpr std::size_t kLongestFrame = 4096;  // bytes held back

constexpr std::string_view kNoticed = "mpirun noticed that process rank ", kDetected = "mpirun detected that ";
// How mpirun's messages about the end of a job begin. The first two say no more than the others and the ranks do.
constexpr std::string_view kEnds[] = {"Primary job ", "MPI_ABORT was invoked ", kNoticed, kDetected};

// mpirun says for each signal that it passes to the ranks "mpirun: Forwarding signal 10 to job".
constexpr std::string_view kForwarding = "mpirun: Forwarding signal ", kToJob = " to job\n";
constexpr std::size_t kLongestForwarding = kForwarding.size() + kToJob.size() + 3;

bool is_forwarding(std::string_view line) { return line.starts_with(kForwarding) && line.ends_with(kToJob); }
// True if `line` may be the beginning of such a line.
bool may_be_forwarding(std::string_view line) {
  return line.size() < kLongestForwarding && line.substr(0, kForwarding.size()) == kForwarding.substr(0, line.size());
}

bool is_dashes(std::string_view text) { return text.find_first_not_of('-') == text.npos; }
bool is_rule(std::string_view line) { return line.size() == kRule + 1 && is_dashes(line.substr(0, kRule)); }

// The text between two other texts; empty if they are not there.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin);
  if (from == text.npos) return {};
  text.remove_prefix(from + begin.size());
  const std::size_t to = text.find(end);
  return to == text.npos ? std::string_view() : text.substr(0, to);
}

// The line for a frame whose first line is one of kEnds; empty: none.
std::string reduced(std::string_view frame) {
  const std::string_view text = frame.substr(kRule + 1);
  if (text.starts_with(kNoticed)) return std::string(text.substr(0, text.find('\n') + 1));
  if (!text.starts_with(kDetected)) return "";
  // "  Process name: [[5117,1],1]\n  Exit code:    3\n"
  const std::string_view rank = between(text, "],", "]"), code = between(text, "Exit code:", "\n");
  const std::size_t digits = std::min(code.size(), code.find_first_not_of(' '));
  return rank.empty() || code.empty()
             ? std::string(frame)
             : fmt::format("mpirun: rank {} ended first, with exit code {}\n", rank, code.substr(digits));
}

}  // namespace

std::string LauncherWords::pass(std::string_view text) {
  std::string out;
  for (const char c : text) {
    line_ += c;
    if (c == '\n') out += take_line();
  }
  const bool may_be_held = position_ == FramePosition::in_unread || position_ == FramePosition::in_end ||
                           is_dashes(line_) || (position_ == FramePosition::outside && may_be_forwarding(line_));
  if (may_be_held && line_.size() <= kLongestFrame) return out;
  out += std::exchange(held_, {}) + line_.substr(written_);
  written_ = line_.size();
  if (position_ != FramePosition::outside) position_ = FramePosition::in_other;
  return out;
}

// What the line that is complete now adds to the output.
std::string LauncherWords::take_line() {
  const std::string line = std::exchange(line_, {}), rest = line.substr(std::exchange(written_, 0));
  switch (position_) {
    case FramePosition::outside:
      if (!is_rule(line)) return is_forwarding(line) ? "" : rest;
      position_ = FramePosition::in_unread, held_ = line;
      return "";
    case FramePosition::in_unread:
    case FramePosition::in_end: {
      held_ += line;
      if (is_rule(line)) {
        const bool is_end = std::exchange(position_, FramePosition::outside) == FramePosition::in_end;
        const std::string frame = std::exchange(held_, {});
        return is_end ? reduced(frame) : frame;
      }
      const bool is_end = position_ == FramePosition::in_end ||
                          std::ranges::any_of(kEnds, [&](std::string_view e) { return line.starts_with(e); });
      position_ = is_end && held_.size() <= kLongestFrame ? FramePosition::in_end : FramePosition::in_other;
      return position_ == FramePosition::in_end ? "" : std::exchange(held_, {});
    }
    case FramePosition::in_other:
      if (is_rule(line)) position_ = FramePosition::outside;
      return rest;
  }
  return rest;
}

std::string LauncherWords::finish() {
  position_ = FramePosition::outside;
  return std::exchange(held_, {}) + std::exchange(line_, {}).substr(std::exchange(written_, 0));
}

}  // namespace lt::launch
