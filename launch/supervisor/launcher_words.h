// Shortens mpirun's messages about the end of a job to at most one line, because the supervisor itself reports how an
// attempt ended. mpirun frames each message with two lines of dashes. Drops mpirun's lines about signals that it
// forwards. All other text passes unchanged.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lt::launch {

class LauncherWords {
 public:
  // Takes the next piece of a launcher's standard error and returns the text to write now. Holds back a line of dashes
  // or about a signal, and a message about the end of a job, until it is complete.
  std::string pass(std::string_view text);
  // Returns the text that is still held back. Call it after the last piece.
  std::string finish();

 private:
  // Position in a frame. in_unread: after its first line of dashes. in_end: in a message about the end of a job.
  enum class FramePosition { outside, in_unread, in_end, in_other };
  std::string take_line();

  FramePosition position_ = FramePosition::outside;
  std::string held_;         // lines of the frame that may be shortened
  std::string line_;         // the current line, possibly incomplete
  std::size_t written_ = 0;  // bytes of line_ that were returned
};

}  // namespace lt::launch
