// Who waits for whom, and in which collective.
#pragma once

#include <vector>

#include "watchdog/diagnosis.h"

namespace lt::watchdog {

using Peers = std::vector<const Peer*>;  // in rank order

// Ranks that are in one call of a group, and the group's ranks that have not reached it.
struct IncompleteCall {
  const GroupBoard* group;
  const Call* call;
  Peers waiting, missing;
  std::size_t known = 0;  // the group's ranks among the peers
};

// The oldest call in flight; null if there is none.
const Call* open_call(const GroupBoard& group);
// The same in any of the peer's groups; sets `group` to the group of the call.
const Call* open_call(const Peer& peer, const GroupBoard*& group);

// Considers only connected peers that make no progress.
std::vector<IncompleteCall> incomplete_calls_of(const std::vector<Peer>& peers);

// Two ranks whose calls of the same number in a group differ.
struct Mismatch {
  const Peer *one, *other;
  const GroupBoard* group;
  const Call *of_one, *of_other;
};
std::vector<Mismatch> mismatches_of(const std::vector<Peer>& peers);

}  // namespace lt::watchdog
