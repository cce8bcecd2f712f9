// Shows the progress of a long command on standard error, from its third second on. A terminal shows one line in place,
// every second. Elsewhere a command is quiet, or writes a line every 30 seconds.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "libtrain/dtype.h"
#include "libtrain/progress.h"

namespace lt::launch {

struct Progress {
  Size amount = 0;            // what this process has done, in `unit`; determines the rate
  Size done = 0;              // what is done, also by an earlier process; may be measured in another unit
  std::optional<Size> total;  // of `done`; nullopt: unknown
};

// "300MB of text, 30MB/s, 50%, 50s left" for the unit "B" and " of text". Omits share and remaining time if the total
// is unknown. `first` is the first report of this process; `now` follows it after `seconds`.
std::string progress_text(const std::string& unit, const std::string& what, const Progress& first, const Progress& now,
                          double seconds);

class ProgressLine {
 public:
  enum class Elsewhere { quiet, lines };  // if standard error is no terminal

  // `unit` follows numbers: "B", " tokens". `what` follows the amount: " of text".
  ProgressLine(std::string command, std::string unit, std::string what = "", Elsewhere elsewhere = Elsewhere::quiet);
  // Removes the line from the terminal.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // If `now.done` is less than before, other work has begun, and rate and remaining time are those of this work.
  void show(const Progress& now);
  void show(Size done, Size total) { show({done, done, total}); }
  // Removes the line before other output to the terminal. The next call of show() writes it again.
  void hide();
  bool is_quiet() const { return quiet_; }

 private:
  using Clock = std::chrono::steady_clock;
  const std::string command_, unit_, what_;
  const bool terminal_, quiet_;
  bool shown_ = false;
  std::optional<Progress> first_;
  Size last_done_ = 0;
  Clock::time_point begin_, next_;
};

// Runs `body` with an OnProgress that shows the progress of `command`, and removes the line after it. The OnProgress is
// empty if nothing is shown, because counting what there is to do may take reads.
template <class Body>
auto with_progress(const char* command, const char* unit, const char* what, Body&& body) {
  ProgressLine line(command, unit, what);
  if (line.is_quiet()) return body(OnProgress());
  return body(OnProgress([&](Size done, Size total) { line.show(done, total); }));
}

}  // namespace lt::launch
