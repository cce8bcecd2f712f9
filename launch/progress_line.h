// Shows the progress of `prepare` on standard error. First says if it continues a killed run. After 3 seconds shows a
// progress line. A terminal shows the line in place, every second; elsewhere a new line follows every 30 seconds.
#pragma once

#include <chrono>
#include <string>

#include "libtrain/data/prepare.h"

namespace lt::launch {

// "1.25GB of text, 34.1MB/s, 42%, 1m38s left". Omits share and remaining time if the size of the input is unknown.
// `first` is the first report of this process; `now` follows it after `seconds`.
std::string progress_text(const PrepareProgress& first, const PrepareProgress& now, double seconds);

class ProgressLine {
 public:
  ProgressLine();
  // Removes the line from the terminal.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const PrepareProgress& now);

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_, shown_ = false, begun_ = false;
  PrepareProgress first_;
  Clock::time_point begin_, next_;
};

}  // namespace lt::launch
