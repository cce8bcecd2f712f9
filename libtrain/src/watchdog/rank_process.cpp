// Reads /proc and the interfaces of this host.
#include "watchdog/rank_process.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>

#include "device/host.h"

namespace lt::watchdog {
namespace {

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

}  // namespace

RankProcess own_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string boot = "boot-" + device::kernel_identity();  // one word, even if the identity is empty
  return {host.data(), static_cast<long>(::getpid()), boot + link_of("/proc/self/ns/net"),
          boot + link_of("/proc/self/ns/pid")};
}

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

}  // namespace lt::watchdog
