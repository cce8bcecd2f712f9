// A rank's place in its group and in the whole run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace lt {

// Ranks by host, where each host has as many, neighbours in the group: rank = host * ranks + local rank.
struct HostGrid {
  int hosts = 1, ranks = 1;
};

struct GroupPlace {
  int rank = 0, size = 1;
  int run_rank = 0, run_size = 1;
  std::string name = "self";
  int stride = 1;               // distance between its first two ranks, in ranks of the run
  bool is_even = true;          // all neighbours have this distance
  std::uint64_t id = 1;         // the same on its ranks, and unique to the group
  bool on_paper = false;        // a meta group
  std::vector<int> hosts = {};  // of CUDA ranks: the host of each, numbered; empty: all on one
  bool patient = false;         // waiting threads sleep, and nothing is counted: a group for a background thread

  // If the ranks form no grid, each counts as a host of its own.
  HostGrid grid() const {
    if (hosts.empty()) return {1, size};
    const auto ranks_of = [&](int host) { return static_cast<int>(std::count(hosts.begin(), hosts.end(), host)); };
    const int ranks = ranks_of(hosts.front());
    for (int r = 0; r < size; ++r) {
      const int host = hosts[static_cast<std::size_t>(r)];
      if (host != hosts[static_cast<std::size_t>(r / ranks * ranks)] || ranks_of(host) != ranks) return {size, 1};
    }
    return {size / ranks, ranks};
  }
};

// The id of the group that the `number`-th split of `parent` makes and that begins with rank `first` of the parent.
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

}  // namespace lt
