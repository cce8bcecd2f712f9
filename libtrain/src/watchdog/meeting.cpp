// At the start the ranks exchange their hosts and processes, and the monitors' tokens and addresses, over the group.
// Then they connect to the monitors.
#include "watchdog/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "comm/value_exchange.h"
#include "libtrain/error.h"

namespace lt::watchdog {
namespace {

constexpr std::chrono::seconds kOneAddress{3};
constexpr std::chrono::milliseconds kRetry{100};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

}  // namespace

bool Meeting::is_local(int r) const {
  return processes[static_cast<std::size_t>(r)].pids == processes[static_cast<std::size_t>(rank)].pids;
}

Meeting meet(const Group& group) {
  Meeting meeting;
  meeting.rank = group.rank();
  const RankProcess own = own_process();
  for (const std::string& text :
       group.all_gather_bytes(fmt::format("{} {} {} {}", own.host, own.pid, own.machine, own.pids))) {
    const auto words = words_of(text);
    if (words.size() != 4) throw CommError("the watchdog expected four words of each rank, got \"" + text + "\"");
    meeting.processes.push_back({words[0], std::stol(words[1]), words[2], words[3]});
  }
  const auto elsewhere =
      std::find_if(meeting.processes.begin(), meeting.processes.end(),
                   [&](const RankProcess& process) { return process.machine != meeting.processes[0].machine; });
  const bool one_host = elsewhere == meeting.processes.end();
  meeting.monitors = {0, one_host ? 1 : static_cast<int>(elsewhere - meeting.processes.begin())};
  std::string mine;
  if (meeting.is_monitor(meeting.rank)) {
    meeting.listener = comm::TcpListener::at_free_port(one_host);
    mine = comm::bytes_of(comm::random_token()) + std::to_string(meeting.listener->port());
    for (const std::string& address : own_addresses()) mine += " " + address;
  }
  const auto all = group.all_gather_bytes(mine);
  for (const int monitor : meeting.monitors) {
    const std::string& text = all[static_cast<std::size_t>(monitor)];
    comm::MeetingToken& token = meeting.tokens.emplace_back();
    std::memcpy(token.data(), text.data(), token.size());
    meeting.addresses.push_back(text.substr(token.size()));
  }
  return meeting;
}

Channel connect_to(const Meeting& meeting, int monitor, Clock::time_point deadline) {
  auto addresses = words_of(meeting.addresses[monitor == meeting.monitors[0] ? 0 : 1]);
  const int port = std::stoi(addresses.front());
  const auto& processes = meeting.processes;
  if (processes[static_cast<std::size_t>(monitor)].machine ==
      processes[static_cast<std::size_t>(meeting.rank)].machine) {
    addresses = {addresses.front(), "127.0.0.1"};
  }
  std::string problem = "it has no address but the loopback";
  while (true) {
    for (std::size_t i = 1; i < addresses.size();) {
      const auto one = std::min(deadline, Clock::now() + kOneAddress);
      std::string why = "no welcome";
      std::optional<io::Descriptor> link =
          comm::tcp_connect(addresses[i], port, one, why, comm::TcpPatience::unlimited);
      const comm::Greeting greeting =
          link ? comm::greet(*link, meeting.rank, meeting.size(), meeting.token_of(monitor), one)
               : comm::Greeting::closed;
      if (greeting == comm::Greeting::welcome) return Channel(std::move(*link));
      const bool is_another = greeting == comm::Greeting::wrong_token;  // another machine: do not retry that address
      problem = fmt::format("{}: {}", addresses[i], is_another ? "it does not know this run's token" : why);
      if (is_another) {
        addresses.erase(addresses.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    if (addresses.size() == 1 || Clock::now() >= deadline) break;
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + kRetry));
  }
  const RankProcess& process = processes[static_cast<std::size_t>(monitor)];
  throw CommError(fmt::format("the watchdog cannot connect to rank {} on host {}, port {}; last tried {}", monitor,
                              process.host, port, problem),
                  "ranks must reach each other over TCP: a firewall? watchdog.init_s is how long they try");
}

}  // namespace lt::watchdog
