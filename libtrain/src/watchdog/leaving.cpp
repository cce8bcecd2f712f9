// Prints, writes files and exits, without waiting for a lock that another thread may hold for ever.
#include "watchdog/leaving.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <vector>

#include "comm/call_log.h"
#include "comm/deadline.h"
#include "comm/tcp/tcp_socket.h"

namespace lt::watchdog {
namespace {

constexpr std::size_t kCallsAloud = 8;
constexpr std::chrono::seconds kAbortDeadline{3};

void write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(fd, text.data() + at, text.size() - at);
    if (written <= 0) return;
    at += static_cast<std::size_t>(written);
  }
}

void write_file(const std::string& path, const std::string& text, int how) {
  const io::Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | how, 0644));
  if (file.get() >= 0) write_all(file.get(), text);
}

std::string text_of(const CollectiveRecord& call, const std::string& group) {
  return fmt::format("#{} of group {}: {} \"{}\", {} bytes, began {:.3f} s ago, {}\n", call.sequence, group,
                     to_string(call.op), call.name, call.bytes, call.age_s, call.ended ? "ended" : "has not ended");
}

}  // namespace

void say(const std::string& message, const std::string& hint, const std::string& folder) {
  const std::string line = fmt::format("error: [watchdog] {}\n", message);
  write_all(STDERR_FILENO, line + (hint.empty() ? "" : fmt::format("hint: {}\n", hint)));
  if (!folder.empty()) write_file(folder + "/log.txt", line, O_APPEND);
}

void write_last_calls(const std::string& message, int rank, const std::string& folder, bool aloud) {
  std::string all = fmt::format("rank {}\n{}\n", rank, message);
  std::vector<std::pair<double, std::string>> newest;  // by age
  for (const comm::GroupCalls& group : comm::calls_of_groups(Group::kLogLength, false)) {
    const comm::GroupPlace& place = group.place;
    all += fmt::format("\ngroup {}: rank {} of {}\n", place.name, place.rank, place.size);
    for (const CollectiveRecord& call : group.calls) {
      all += text_of(call, place.name);
      newest.emplace_back(call.age_s, text_of(call, place.name));
    }
  }
  if (!folder.empty()) {
    write_file(fmt::format("{}/watchdog-rank-{}.txt", folder, rank), all, O_CREAT | O_TRUNC | O_NOFOLLOW);
  }
  if (!aloud || newest.empty()) return;
  std::sort(newest.begin(), newest.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  newest.resize(std::min(newest.size(), kCallsAloud));
  std::string text = fmt::format("last collectives of rank {}:\n", rank);
  for (auto entry = newest.rbegin(); entry != newest.rend(); ++entry) text += "  " + entry->second;
  write_all(STDERR_FILENO, text);
}

void ignore_signals() {
  for (const int signal : {SIGTERM, SIGPIPE}) std::signal(signal, SIG_IGN);
}

void leave(int exit_code, const World* world) {
  if (world != nullptr) {
    comm::run_within(kAbortDeadline, [copy = *world, exit_code] { copy.abort(exit_code); });
  }
  std::_Exit(exit_code);
}

}  // namespace lt::watchdog
