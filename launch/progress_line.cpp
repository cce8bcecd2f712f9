// Formats and prints the progress of commands.
#include "launch/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "io/print_note.h"
#include "record/short_text.h"

namespace lt::launch {
namespace {

constexpr std::chrono::seconds kSilence{3}, kOnTerminal{1}, kElsewhere{30};

}  // namespace

std::string progress_text(const std::string& unit, const std::string& what, const Progress& first, const Progress& now,
                          double seconds) {
  const double rate = static_cast<double>(now.amount - first.amount) / seconds;
  std::string text = fmt::format("{}{}{}, {}{}/s", recorder::short_count(static_cast<double>(now.amount)), unit, what,
                                 rate < 10 ? fmt::format("{:.2g}", rate) : recorder::short_count(rate), unit);
  const Size done = now.done - first.done;
  if (!now.total || done <= 0) return text;
  const Size left = std::max<Size>(*now.total - now.done, 0);
  return text + fmt::format(", {}%, {} left", 100 * now.done / std::max<Size>(*now.total, 1),
                            recorder::short_duration(static_cast<double>(left) * seconds / static_cast<double>(done)));
}

ProgressLine::ProgressLine(std::string command, std::string unit, std::string what, Elsewhere elsewhere)
    : command_(std::move(command)),
      unit_(std::move(unit)),
      what_(std::move(what)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      quiet_(!terminal_ && elsewhere == Elsewhere::quiet),
      begin_(Clock::now()),
      next_(begin_ + kSilence) {}

ProgressLine::~ProgressLine() { hide(); }

void ProgressLine::show(const Progress& now) {
  if (quiet_) return;
  const auto time = Clock::now();
  if (!first_ || now.done < last_done_) first_ = now, begin_ = time;
  last_done_ = now.done;
  if (time < next_ || time - begin_ < kOnTerminal) return;  // a shorter time says nothing of the rate
  next_ = time + (terminal_ ? kOnTerminal : kElsewhere);
  const double seconds = std::chrono::duration<double>(time - begin_).count();
  const std::string text = progress_text(unit_, what_, *first_, now, seconds);
  io::print_note("{}{}: {}{}", terminal_ ? "\r\x1b[K" : "", command_, text, terminal_ ? "" : "\n");
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::hide() {
  if (terminal_ && shown_) io::print_note("\r\x1b[K");
  shown_ = false;
}

}  // namespace lt::launch
