// Finds the ranks that wait for other ranks, and the collectives in which they wait.
#pragma once

#include <vector>

#include "watchdog/diagnosis.h"

namespace lt::watchdog {

using Peers = std::vector<const Peer*>;  // in rank order

// A call of a group that some ranks are in (`waiting`) and other ranks of the group have not reached (`missing`).
struct IncompleteCall {
  const GroupStatus* group;
  const Call* call;
  Peers waiting, missing;
  std::size_t known = 0;  // the group's ranks among the peers
};

// Returns the group's oldest call in flight; null if there is none.
const Call* open_call(const GroupStatus& group);
// Returns such a call of the peer's first group that has one, and sets `group` to that group.
const Call* open_call(const Peer& peer, const GroupStatus*& group);

// Considers only connected peers that make no progress.
std::vector<IncompleteCall> incomplete_calls_of(const std::vector<Peer>& peers);

// Two ranks whose calls of the same number in a group differ.
struct Mismatch {
  const Peer *one, *other;
  const GroupStatus* group;
  const Call *of_one, *of_other;
};
std::vector<Mismatch> mismatches_of(const std::vector<Peer>& peers);

}  // namespace lt::watchdog
