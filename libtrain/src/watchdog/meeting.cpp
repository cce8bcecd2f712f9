// What ranks tell each other over the group at the start, and the connections that follow from it.
#include "watchdog/meeting.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "libtrain/error.h"

namespace lt::watchdog {
namespace {

constexpr std::chrono::seconds kOneAddress{3};
constexpr std::chrono::milliseconds kRetry{100};
constexpr std::size_t kMostAddresses = 16;

std::string link_of(const char* path) {
  std::error_code failed;
  return std::filesystem::read_symlink(path, failed).string();
}

std::string first_line_of(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// Addresses of this host's interfaces that are up, as numbers, without loopback and link-local ones.
std::vector<std::string> own_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const bool v6 = at->ifa_addr->sa_family == AF_INET6;
    if (!v6 && at->ifa_addr->sa_family != AF_INET) continue;
    if (v6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr)) continue;
    std::array<char, NI_MAXHOST> text{};
    const socklen_t size = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (::getnameinfo(at->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (addresses.size() < kMostAddresses) addresses.emplace_back(text.data());
  }
  return addresses;
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw CommError("the watchdog has no random bytes for its token");
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

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

Place own_place() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string boot = "boot-" + first_line_of("/proc/sys/kernel/random/boot_id");  // a word, whatever is there
  return {host.data(), static_cast<long>(::getpid()), boot + link_of("/proc/self/ns/net"),
          boot + link_of("/proc/self/ns/pid")};
}

// The state is the letter after the name in parentheses.
ProcessState process_state(long pid) {
  const std::string stat = first_line_of(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == stat.npos || name_end + 2 >= stat.size()) return {"its process is gone"};
  switch (stat[name_end + 2]) {
    case 'T': return {"stopped by a signal"};
    case 't': return {"held by a debugger", true};
    case 'D': return {"waiting for a disk or a driver"};
    case 'Z': return {"its process is dead"};
    default: return {};
  }
}

bool Meeting::is_local(int r) const {
  return places[static_cast<std::size_t>(r)].pids == places[static_cast<std::size_t>(rank)].pids;
}

Meeting meet(const Group& group) {
  Meeting meeting;
  meeting.rank = group.rank();
  const Place own = own_place();
  const std::string token = group.rank() == 0 ? random_token() : "-";
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
    std::this_thread::sleep_for(kRetry);
  }
  const Place& place = places[static_cast<std::size_t>(monitor)];
  throw CommError(fmt::format("the watchdog cannot connect to rank {} on host {}, port {}; last tried {}", monitor,
                              place.host, port, problem),
                  "ranks must reach each other over TCP: a firewall? watchdog.init_s is how long they try");
}

}  // namespace lt::watchdog
