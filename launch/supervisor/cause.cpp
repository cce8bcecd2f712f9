// Recognises the messages of Open MPI 4.1 and Slurm 22.05. If another version words them differently, the cause is
// derived from the exit code.
#include "launch/supervisor/cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <optional>

namespace lt::launch {
namespace {

constexpr std::string_view kSrun = "srun: error: ";
constexpr std::string_view kSrunEnds[] = {"Killed", "Segmentation fault", "Bus error", "Aborted"};
constexpr std::string_view kHostIsGone[] = {"ORTE was unable to reliably start", "ORTE has lost communication",
                                            "srun: error: Node failure"};

constexpr std::string_view kError = "error: [", kWatchdog = "error: [watchdog]", kComm = "error: [comm]",
                           kRank = "] rank ";
// In the watchdog's verdict if another rank may be to blame.
constexpr std::string_view kOthersUnknown = "not all its ranks are known here";

bool contains(std::string_view line, std::string_view words) { return line.find(words) != line.npos; }

// The number after `words`; nullopt if they are not in the line.
std::optional<int> number_after(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == line.npos) return std::nullopt;
  line.remove_prefix(at + words.size());
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
  int number = 0;
  const bool is_one = std::from_chars(line.data(), line.data() + line.size(), number).ec == std::errc();
  return is_one ? std::optional(number) : std::nullopt;
}

struct SignalledRank {
  int rank, signal;
};
std::optional<SignalledRank> signalled_rank(std::string_view line) {
  const auto rank = number_after(line, "noticed that process rank "), signal = number_after(line, "exited on signal ");
  return rank && signal ? std::optional(SignalledRank{*rank, *signal}) : std::nullopt;
}

struct EndedTask {
  int task;
  std::string_view node, end;
};
std::optional<EndedTask> ended_task(std::string_view line) {
  const auto task = number_after(line, ": task ");
  if (!task || !line.starts_with(kSrun)) return std::nullopt;
  const auto end = std::ranges::find_if(kSrunEnds, [&](std::string_view words) { return contains(line, words); });
  if (end == std::end(kSrunEnds)) return std::nullopt;
  return EndedTask{*task, line.substr(kSrun.size(), line.find(':', kSrun.size()) - kSrun.size()), *end};
}

std::string ended_by(int signal) {
  return signal == SIGKILL ? "was killed (SIGKILL)" : fmt::format("ended by {}", signal_name(signal));
}

void keep_first(std::string& kept, const std::string& text) {
  if (kept.empty()) kept = text;
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

void Cause::read(std::string_view line) {
  if (const auto ended = signalled_rank(line))
    keep_first(signal_, fmt::format("rank {} {}", ended->rank, ended_by(ended->signal)));
  if (const auto ended = ended_task(line))
    keep_first(signal_, fmt::format("rank {} on {}: {}", ended->task, ended->node, ended->end));
  if (line.starts_with(kError)) keep_first(error_, std::string(line.substr(std::strlen("error: "))));
  for (const std::string_view words : kHostIsGone) {
    if (contains(line, words)) keep_first(host_, "a host cannot be reached");
  }
  // "Process name: [[17320,1],0]" and "Exit code:    75" come on consecutive lines.
  const auto name = contains(line, "Process name: ") ? number_after(line, "],") : std::nullopt;
  if (name) keep_first(rank_of_exit_, std::to_string(*name));
  if (const auto code = number_after(line, "  Exit code:")) keep_first(exit_, std::to_string(*code));
}

bool Cause::is_known() const { return !signal_.empty() || !error_.empty() || !host_.empty() || !exit_.empty(); }

std::string Cause::text(int code, const std::string& rank) const {
  for (const std::string* known : {&signal_, &error_, &host_}) {
    if (!known->empty()) return *known;
  }
  if (!exit_.empty() && !rank_of_exit_.empty()) return fmt::format("rank {} ended with code {}", rank_of_exit_, exit_);
  if (code >= 128 && sigabbrev_np(code - 128) != nullptr) return fmt::format("{} {}", rank, ended_by(code - 128));
  return fmt::format("{} ended with code {}", rank, code);
}

void FailedRank::read(std::string_view line) {
  if (const auto ended = signalled_rank(line)) blamed_.insert(ended->rank);
  // After an error of a rank, Slurm kills the others, and srun reports those.
  if (const auto ended = ended_task(line); ended && !has_error_) blamed_.insert(ended->task);
  if (!line.starts_with(kError)) return;
  has_error_ = true;
  if (line.starts_with(kComm)) return;  // whose peer failed
  const std::string_view text = line.substr(std::min(line.size(), line.find(']')));
  const auto rank = text.starts_with(kRank) ? number_after(text, kRank) : std::nullopt;
  const bool is_verdict = line.starts_with(kWatchdog);
  // Rank 0 reports an error first, also if all ranks have it.
  if (rank && (is_verdict ? !contains(text, kOthersUnknown) : *rank > 0)) {
    blamed_.insert(*rank);
  } else {
    is_of_several_ = true;
  }
}

std::optional<int> FailedRank::rank() const {
  return blamed_.size() == 1 && !is_of_several_ ? std::optional(*blamed_.begin()) : std::nullopt;
}

}  // namespace lt::launch
