// A rank waits for members of a group that have not reached its oldest open call. All functions take time linear in the
// number of ranks.
#include "watchdog/waits.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace lt::watchdog {
namespace {

// Identifies a call, the same on all ranks of its group.
using Key = std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>;  // group, launch, sequence
Key key_of(const GroupStatus& group, const Call& call) { return {group.id, group.launch, call.sequence}; }

const GroupStatus* status_of(const Peer& peer, const GroupStatus& group) {
  const auto& groups = peer.status.groups;
  const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& entry) { return entry.id == group.id; });
  return same == groups.end() ? nullptr : &*same;
}

bool is_member(const Peer& peer, const GroupStatus& group) {
  if (group.stride == 0) return status_of(peer, group) != nullptr;
  const long offset = peer.rank - static_cast<long>(group.first), stride = group.stride;
  return offset >= 0 && offset % stride == 0 && offset / stride < static_cast<long>(group.size);
}

// A call missing from a rank's status has not begun there: a status holds no groups while its rank makes progress.
bool has_come_to(const Peer& peer, const GroupStatus& group, const Call& call) {
  const GroupStatus* const same = status_of(peer, group);
  return same != nullptr && std::tuple(same->launch, same->begun) > std::tuple(group.launch, call.sequence);
}

bool is_same(const Call& one, const Call& other) {
  return one.op == other.op && one.name == other.name && one.whole == other.whole;
}

}  // namespace

const Call* open_call(const GroupStatus& group) {
  const auto open = std::find_if(group.calls.begin(), group.calls.end(), [](const Call& call) { return !call.ended; });
  return open == group.calls.end() ? nullptr : &*open;
}

const Call* open_call(const Peer& peer, const GroupStatus*& group) {
  for (const GroupStatus& entry : peer.status.groups) {
    if (const Call* const call = open_call(entry)) return group = &entry, call;
  }
  return nullptr;
}

std::vector<IncompleteCall> incomplete_calls_of(const std::vector<Peer>& peers) {
  std::map<Key, IncompleteCall> incomplete;
  for (const Peer& peer : peers) {
    if (peer.link != Link::open) continue;
    for (const GroupStatus& group : peer.status.groups) {
      const Call* const call = open_call(group);
      if (call == nullptr) continue;
      const auto [at, is_new] = incomplete.try_emplace(key_of(group, *call), IncompleteCall{&group, call, {}, {}, 0});
      at->second.waiting.push_back(&peer);
      if (!is_new) continue;
      for (const Peer& other : peers) {
        if (!is_member(other, group)) continue;
        ++at->second.known;
        if (!has_come_to(other, group, *call)) at->second.missing.push_back(&other);
      }
    }
  }
  std::vector<IncompleteCall> all;
  for (auto& [key, call] : incomplete) all.push_back(std::move(call));
  return all;
}

std::vector<Mismatch> mismatches_of(const std::vector<Peer>& peers) {
  struct First {
    const Peer* peer;
    const Call* call;
  };
  std::map<Key, First> first;
  std::vector<Mismatch> found;
  for (const Peer& peer : peers) {
    for (const GroupStatus& group : peer.status.groups) {
      for (const Call& call : group.calls) {
        const auto [at, is_new] = first.try_emplace(key_of(group, call), First{&peer, &call});
        if (is_new || is_same(*at->second.call, call)) continue;
        found.push_back({at->second.peer, &peer, &group, at->second.call, &call});
      }
    }
  }
  return found;
}

}  // namespace lt::watchdog
