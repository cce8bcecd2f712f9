// Reads /proc. Ignores processes that end meanwhile, and processes of other users, which it cannot read.
#include "launch/supervisor/leftovers.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <thread>

#include "io/readable.h"
#include "libtrain/error.h"

namespace lt::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "/dev/shm/";
constexpr std::string_view kNames[] = {"vader_segment.", "nccl-"};  // segments of Open MPI and of NCCL
constexpr std::chrono::seconds kEndDeadline{10};
constexpr std::chrono::milliseconds kLook{10};

std::vector<pid_t> processes() {
  std::vector<pid_t> found;
  for (const fs::path& entry : io::readable_entries("/proc")) {
    const std::string name = entry.filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc() && end == name.data() + name.size() && pid != getpid()) found.push_back(pid);
  }
  return found;
}

std::string text_of(pid_t pid, const char* file) { return io::readable_text(fmt::format("/proc/{}/{}", pid, file)); }

// A zombie has ended and holds no resources. A process without a readable state counts as one.
bool is_zombie(pid_t pid) {
  const std::string stat = text_of(pid, "stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end == stat.npos || stat.compare(name_end + 1, 2, " Z") == 0;
}

// Adds the shared memory files that a process maps or has open.
void add_files_of(pid_t pid, std::set<std::string>& files) {
  std::istringstream maps(text_of(pid, "maps"));
  for (std::string line; std::getline(maps, line);) {
    if (const std::size_t path = line.find(kFolder); path != line.npos) files.insert(line.substr(path));
  }
  for (const fs::path& entry : io::readable_entries(fmt::format("/proc/{}/fd", pid))) {
    std::error_code gone;
    const fs::path path = fs::read_symlink(entry, gone);
    if (path.string().starts_with(kFolder)) files.insert(path);
  }
}

// The path of a process's program; empty if it is gone. The file may have been replaced since one of the processes
// began, and the kernel marks the path of the old one.
std::string program_of(const std::string& process) {
  std::error_code failed;
  const std::string path = fs::read_symlink("/proc/" + process + "/exe", failed);
  const std::string_view mark = " (deleted)";
  return path.ends_with(mark) ? path.substr(0, path.size() - mark.size()) : path;
}

bool has_their_name(const std::string& path) {
  const std::string name = fs::path(path).filename();
  return std::any_of(std::begin(kNames), std::end(kNames), [&](std::string_view of) { return name.starts_with(of); });
}

}  // namespace

std::vector<pid_t> marked_processes(const std::string& mark) {
  std::vector<pid_t> found;
  const std::string entry = mark + std::string(1, '\0');
  for (const pid_t pid : processes()) {
    const std::string environment = text_of(pid, "environ");
    const std::size_t at = environment.find(entry);
    if (at == environment.npos || (at > 0 && environment[at - 1] != '\0') || is_zombie(pid)) continue;
    found.push_back(pid);
  }
  return found;
}

bool runs_this_program(pid_t pid) {
  const std::string program = program_of(std::to_string(pid));
  return !program.empty() && program == program_of("self");
}

int end_marked_processes(const std::string& mark) {
  const auto deadline = std::chrono::steady_clock::now() + kEndDeadline;
  std::vector<pid_t> left = marked_processes(mark);
  const int count = static_cast<int>(left.size());
  while (!left.empty()) {
    for (const pid_t pid : left) kill(pid, SIGKILL);
    std::this_thread::sleep_for(kLook);
    left = marked_processes(mark);
    if (left.empty() || std::chrono::steady_clock::now() < deadline) continue;
    throw InternalError(
        "launch", fmt::format("process {} of the last attempt: expected it to end when killed, it lives", left[0]));
  }
  return count;
}

void SharedMemoryFiles::note(const std::vector<pid_t>& pids) {
  std::set<std::string> files;
  for (const pid_t pid : pids) add_files_of(pid, files);
  for (const std::string& path : files) {
    if (has_their_name(path)) seen_.insert(path);
  }
}

int SharedMemoryFiles::remove_unused() {
  std::set<std::string> used;
  for (const pid_t pid : processes()) add_files_of(pid, used);
  int removed = 0;
  for (const std::string& path : seen_) {
    struct stat status {};
    const bool is_own = lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
    if (is_own && used.count(path) == 0 && unlink(path.c_str()) == 0) ++removed;
  }
  seen_.clear();
  return removed;
}

void remove_session_folder(pid_t mpirun) {
  const char* given = std::getenv("TMPDIR");
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::string short_host = std::string(host).substr(0, std::string(host).find('.'));
  for (const std::string& name : {std::string(host), short_host}) {
    const fs::path folder = fmt::format("{}/ompi.{}.{}", given == nullptr ? "/tmp" : given, name, geteuid());
    std::error_code failed;
    fs::remove_all(folder / fmt::format("pid.{}", mpirun), failed);
    fs::remove(folder, failed);  // fails if another mpirun uses it
  }
}

}  // namespace lt::launch
