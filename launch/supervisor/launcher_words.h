// mpirun frames each of its messages in two rules of dashes. Under the supervisor, which says itself how an attempt
// ended, those about the end of a job become one line. All other text passes unchanged.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lt::launch {

class LauncherWords {
 public:
  // Takes the next piece of a launcher's standard error and returns what to write now. Holds back a rule of dashes and
  // a message about the end of a job, until it is whole.
  std::string pass(std::string_view text);
  // Returns what is still held back. No text follows.
  std::string finish();

 private:
  enum class Place { outside, in_unread, in_end, in_other };  // of a frame; unread: after its first rule
  std::string take_line();

  Place place_ = Place::outside;
  std::string held_;         // lines of the frame, if they may become one
  std::string line_;         // the current line, possibly incomplete
  std::size_t written_ = 0;  // bytes of it that were returned
};

}  // namespace lt::launch
