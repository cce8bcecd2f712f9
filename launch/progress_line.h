// Tells on standard error how far `prepare` is: at once whether it continues a killed run; after a few seconds a line,
// which a terminal shows in place, and elsewhere comes now and then.
#pragma once

#include <chrono>
#include <string>

#include "libtrain/data/prepare.h"

namespace lt::launch {

// "1.25GB of text, 34.1MB/s, 42%, 1m38s left", or without the end where the size of the input is unknown. `first`:
// the first report of this process, `seconds` before.
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
