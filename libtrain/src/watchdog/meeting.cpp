// Ranks exchange places, token and addresses over the group at the start, then connect to the monitors.
#include "watchdog/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <thread>

#include "io/entropy.h"
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

std::string greeting_start(const Meeting& meeting) {
  return fmt::format("libtrain watchdog 1, token {}, rank ", meeting.token);
}

}  // namespace

bool Meeting::is_local(int r) const {
  return places[static_cast<std::size_t>(r)].pids == places[static_cast<std::size_t>(rank)].pids;
}

Meeting meet(const Group& group) {
  Meeting meeting;
  meeting.rank = group.rank();
  const Place own = own_place();
  const std::string token = group.rank() == 0 ? random_hex(32) : "-";
  for (const std::string& text :
       group.all_gather_bytes(fmt::format("{} {} {} {} {}", own.host, own.pid, own.machine, own.pids, token))) {
    const auto words = words_of(text);
    if (words.size() != 5) throw CommError("the watchdog expected five words of each rank, got \"" + text + "\"");
    meeting.places.push_back({words[0], std::stol(words[1]), words[2], words[3]});
    if (meeting.token.empty()) meeting.token = words[4];
  }
  const auto elsewhere = std::find_if(meeting.places.begin(), meeting.places.end(),
                                      [&](const Place& place) { return place.machine != meeting.places[0].machine; });
  const bool one_host = elsewhere == meeting.places.end();
  meeting.monitors = {0, one_host ? 1 : static_cast<int>(elsewhere - meeting.places.begin())};
  std::string mine;
  if (meeting.is_monitor(meeting.rank)) {
    meeting.listener.emplace(one_host);
    mine = std::to_string(meeting.listener->port());
    for (const std::string& address : own_addresses()) mine += " " + address;
  }
  const auto addresses = group.all_gather_bytes(mine);
  for (const int monitor : meeting.monitors) meeting.addresses.push_back(addresses[static_cast<std::size_t>(monitor)]);
  return meeting;
}

int greeted_by(const Meeting& meeting, const std::string& greeting) {
  const std::string start = greeting_start(meeting);
  int rank = -1;
  if (!greeting.starts_with(start)) return -1;
  const char* const end = greeting.data() + greeting.size();
  const auto [stop, error] = std::from_chars(greeting.data() + start.size(), end, rank);
  const bool is_rank = error == std::errc() && stop == end && rank < static_cast<int>(meeting.places.size());
  return is_rank ? rank : -1;
}

Channel connect_to(const Meeting& meeting, int monitor, Clock::time_point deadline) {
  auto addresses = words_of(meeting.addresses[monitor == meeting.monitors[0] ? 0 : 1]);
  const int port = std::stoi(addresses.front());
  const auto& places = meeting.places;
  if (places[static_cast<std::size_t>(monitor)].machine == places[static_cast<std::size_t>(meeting.rank)].machine) {
    addresses = {addresses.front(), "127.0.0.1"};
  }
  std::string problem = "it has no address but the loopback";
  while (true) {
    for (std::size_t i = 1; i < addresses.size(); ++i) {
      const auto one = std::min(deadline, Clock::now() + kOneAddress);
      std::string why = "no welcome";
      Channel channel = Channel::connect(addresses[i], port, one, why);
      if (channel.is_open()) {
        channel.send(FrameKind::hello, greeting_start(meeting) + std::to_string(meeting.rank));
        const auto answer = channel.await(one);
        if (answer && answer->kind == FrameKind::welcome) return channel;
      }
      problem = fmt::format("{}: {}", addresses[i], why);
    }
    if (Clock::now() >= deadline) break;
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + kRetry));
  }
  const Place& place = places[static_cast<std::size_t>(monitor)];
  throw CommError(fmt::format("the watchdog cannot connect to rank {} on host {}, port {}; last tried {}", monitor,
                              place.host, port, problem),
                  "ranks must reach each other over TCP: a firewall? watchdog.init_s is how long they try");
}

}  // namespace lt::watchdog
