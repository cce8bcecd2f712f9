// Contacts all hosts at once, with one deadline for all.
#include "launch/supervisor/hosts.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <thread>

#include "io/whole_file.h"
#include "launch/supervisor/child_process.h"
#include "launch/supervisor/launcher.h"
#include "libtrain/error.h"

namespace lt::launch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::milliseconds kLookAgain{20};

// Whether this host can bind an address of that name.
bool is_this_host(const std::string& name) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return false;
  bool is_own = false;
  for (const addrinfo* address = found; address != nullptr && !is_own; address = address->ai_next) {
    const int socket = ::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    is_own = socket >= 0 && bind(socket, address->ai_addr, address->ai_addrlen) == 0;
    if (socket >= 0) close(socket);
  }
  freeaddrinfo(found);
  return is_own;
}

// Like mpirun, takes "slots = 2" for "slots=2".
std::string joined_at_equals(const std::string& line) {
  std::istringstream words(line);
  std::string text;
  for (std::string word; words >> word;) {
    const bool joined = text.empty() || text.back() == '=' || word.front() == '=';
    text += (joined ? "" : " ") + word;
  }
  return text;
}

// The launch agent's command without the host. Like mpirun, takes the first entry of a list separated by colons.
std::vector<std::string> agent() {
  const Environment environment = current_environment();
  const auto given = environment.find("OMPI_MCA_plm_rsh_agent");
  std::istringstream words(given == environment.end() ? "ssh -o BatchMode=yes -o ConnectTimeout=5"
                                                      : given->second.substr(0, given->second.find(':')));
  std::vector<std::string> command;
  for (std::string word; words >> word;) command.push_back(word);
  if (!command.empty()) command[0] = find_program(command[0]).value_or(command[0]);
  return command;
}

}  // namespace

std::vector<Host> read_hostfile(const std::string& path) {
  const io::FileText file = io::read_file(path);
  if (!file.problem.empty()) {
    throw UsageError("usage", fmt::format("--hostfile {}: expected a readable file, found: {}", path, file.problem));
  }
  std::istringstream lines(file.text);
  std::vector<Host> hosts;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(joined_at_equals(line.substr(0, line.find('#'))));
    Host host;
    if (!(words >> host.name)) continue;
    for (std::string word; words >> word;) {
      if (!word.starts_with("slots=")) continue;
      const char* end = word.data() + word.size();
      const auto [stop, error] = std::from_chars(word.data() + 6, end, host.slots);
      if (error != std::errc() || stop != end || host.slots < 1) {
        throw UsageError("usage", fmt::format("--hostfile {}: expected slots=N, got \"{}\"", path, word));
      }
    }
    const auto same = [&](const Host& other) { return other.name == host.name; };
    if (const auto found = std::find_if(hosts.begin(), hosts.end(), same); found != hosts.end()) {
      found->slots += host.slots;
    } else {
      hosts.push_back(host);
    }
  }
  if (hosts.empty()) throw UsageError("usage", fmt::format("--hostfile {}: expected hosts, found none", path));
  return hosts;
}

std::string hostfile_text(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts) text += fmt::format("{} slots={}\n", host.name, host.slots);
  return text;
}

int slots_of(const std::vector<Host>& hosts) {
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  return slots;
}

std::optional<Host> host_of(int rank, int ranks, std::vector<Host> hosts) {
  if (ranks > slots_of(hosts)) return std::nullopt;
  std::stable_partition(hosts.begin(), hosts.end(), [](const Host& host) { return is_this_host(host.name); });
  for (const Host& host : hosts) {
    if (rank < host.slots) return host;
    rank -= host.slots;
  }
  return std::nullopt;
}

int nodes_of_slurm_job() {
  const char* const nodes = std::getenv("SLURM_JOB_NUM_NODES");
  return nodes == nullptr ? 1 : std::max(1, std::atoi(nodes));
}

bool are_this_host(const std::vector<Host>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [](const Host& host) { return is_this_host(host.name); });
}

std::vector<Host> answering(const std::vector<Host>& hosts) {
  std::vector<std::optional<ChildProcess>> asked(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (is_this_host(hosts[i].name)) continue;
    std::vector<std::string> command = agent();
    command.insert(command.end(), {hosts[i].name, "true"});
    asked[i].emplace(ProcessSpec{command, current_environment(), SIGKILL});
  }
  const auto answered = [](std::optional<ChildProcess>& process) { return !process || process->ended().has_value(); };
  const auto deadline = Clock::now() + kPatience;
  while (!std::all_of(asked.begin(), asked.end(), answered) && Clock::now() < deadline) {
    std::this_thread::sleep_for(kLookAgain);
  }
  std::vector<Host> there;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (!asked[i] || asked[i]->ended() == 0) there.push_back(hosts[i]);
  }
  return there;
}

}  // namespace lt::launch
