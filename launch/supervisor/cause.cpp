// The messages are those of Open MPI 4.1 and Slurm 22.05; what a version words differently falls back to the exit code.
#include "supervisor/cause.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <regex>

namespace lt::launch {
namespace {

using Match = std::match_results<std::string_view::const_iterator>;

bool search(std::string_view line, const char* pattern, Match& match) {
  return std::regex_search(line.begin(), line.end(), match, std::regex(pattern));
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
  Match match;
  if (search(line, R"(noticed that process rank (\d+) .*exited on signal (\d+))", match)) {
    keep_first(signal_, fmt::format("rank {} {}", match[1].str(), ended_by(std::stoi(match[2].str()))));
  } else if (search(line, R"(^srun: error: (\S+): tasks? (\d+).*: (Killed|Segmentation fault|Bus error|Aborted))",
                    match)) {
    keep_first(signal_, fmt::format("rank {} on {}: {}", match[2].str(), match[1].str(), match[3].str()));
  } else if (search(line, R"(^error: (\[.*))", match)) {
    keep_first(error_, match[1].str());
  } else if (search(line, R"(Process name: \[\[\d+,\d+\],(\d+)\])", match)) {
    keep_first(rank_of_exit_, match[1].str());
  } else if (search(line, R"(^\s*Exit code:\s+(\d+))", match)) {
    keep_first(exit_, match[1].str());
  } else if (search(line, "(ORTE was unable to reliably start|ORTE has lost communication|srun: error: Node failure)",
                    match)) {
    keep_first(host_, "a host cannot be reached");
  }
}

std::string Cause::text(int code, const std::string& rank) const {
  for (const std::string* known : {&signal_, &error_, &host_}) {
    if (!known->empty()) return *known;
  }
  if (!exit_.empty() && !rank_of_exit_.empty()) return fmt::format("rank {} ended with code {}", rank_of_exit_, exit_);
  if (code >= 128 && sigabbrev_np(code - 128) != nullptr) return fmt::format("{} {}", rank, ended_by(code - 128));
  return fmt::format("{} ended with code {}", rank, code);
}

}  // namespace lt::launch
