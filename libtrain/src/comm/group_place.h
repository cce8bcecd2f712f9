// A rank's place in its group and in the whole run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::comm {

// How a group's ranks are spread over hosts. Every host has equally many ranks, with consecutive numbers:
// rank = host * ranks + local rank.
struct HostGrid {
  int hosts = 1, ranks = 1;  // ranks of a host
  bool is_one_stage() const { return hosts == 1 || ranks == 1; }
  bool operator==(const HostGrid&) const = default;
};

// `hosts`: the host of each rank. If the ranks do not form such a grid, returns a grid of hosts with one rank each.
inline HostGrid grid_of(const std::vector<int>& hosts) {
  const auto size = static_cast<int>(hosts.size());
  const auto next = std::find_if(hosts.begin(), hosts.end(), [&](int host) { return host != hosts.front(); });
  const auto ranks = static_cast<int>(next - hosts.begin());
  if (ranks == 0 || size % ranks != 0) return {size, 1};
  std::set<int> seen;
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    const bool is_first = static_cast<int>(r) % ranks == 0;
    if (is_first ? !seen.insert(hosts[r]).second : hosts[r] != hosts[r - 1]) return {size, 1};
  }
  return {size / ranks, ranks};
}

struct GroupPlace {
  int rank = 0, size = 1;
  int run_rank = 0, run_size = 1;
  std::string name = "self";
  int stride = 1;                      // distance between the group's first two ranks, in ranks of the run
  bool is_even = true;                 // true if all neighbours have this distance
  std::uint64_t id = 1;                // equal on all ranks of the group, different in other groups
  bool on_paper = false;               // true for a meta group, whose other ranks do not exist
  std::vector<int> hosts = {};         // number of each CUDA rank's host; empty: all ranks on one host
  bool patient = false;                // for background threads: waits sleep, and the totals do not count its calls
  Size most_arriving = Size{1} << 30;  // bytes; how much a rank receives at a time in a reduction on GPUs

  HostGrid grid() const { return hosts.empty() ? HostGrid{1, size} : grid_of(hosts); }
};

// The id of the group that the `number`-th split of group `parent` makes, and whose first rank is rank `first` of the
// parent.
constexpr std::uint64_t group_id(std::uint64_t parent, std::uint64_t number, std::uint64_t first) {
  std::uint64_t id = parent;
  for (const std::uint64_t part : {number, first}) {  // the finaliser of SplitMix64 (Steele et al. 2014)
    id += part + 0x9e3779b97f4a7c15u;
    id = (id ^ (id >> 30)) * 0xbf58476d1ce4e5b9u;
    id = (id ^ (id >> 27)) * 0x94d049bb133111ebu;
    id ^= id >> 31;
  }
  return id;
}

}  // namespace lt::comm
