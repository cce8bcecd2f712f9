// Formats and prints the progress of `prepare`.
#include "launch/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "io/print_note.h"
#include "record/short_text.h"

namespace lt::launch {
namespace {

constexpr std::chrono::seconds kSilence{3}, kOnTerminal{1}, kElsewhere{30};

}  // namespace

std::string progress_text(const PrepareProgress& first, const PrepareProgress& now, double seconds) {
  const auto bytes = static_cast<double>(now.text_bytes);
  std::string text =
      fmt::format("{}B of text, {}B/s", recorder::short_count(bytes), recorder::short_count(bytes / seconds));
  const Size done = now.stored_bytes - first.stored_bytes;
  if (!now.stored_in_all || done <= 0) return text;
  const Size left = *now.stored_in_all - now.stored_bytes;
  return text + fmt::format(", {}%, {} left", 100 * now.stored_bytes / std::max<Size>(*now.stored_in_all, 1),
                            recorder::short_duration(static_cast<double>(left) * seconds / static_cast<double>(done)));
}

ProgressLine::ProgressLine()
    : terminal_(::isatty(STDERR_FILENO) == 1), begin_(Clock::now()), next_(begin_ + kSilence) {}

ProgressLine::~ProgressLine() {
  if (terminal_ && shown_) io::print_note("\r\x1b[K");
}

void ProgressLine::show(const PrepareProgress& now) {
  if (!begun_) {
    first_ = now, begun_ = true;
    if (now.resumed) io::print_note("prepare: continues what an earlier run has done\n");
  }
  const auto time = Clock::now();
  if (time < next_) return;
  next_ = time + (terminal_ ? kOnTerminal : kElsewhere);
  const std::string text = progress_text(first_, now, std::chrono::duration<double>(time - begin_).count());
  io::print_note("{}prepare: {}{}", terminal_ ? "\r\x1b[K" : "", text, terminal_ ? "" : "\n");
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace lt::launch
