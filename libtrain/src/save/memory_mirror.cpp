// Forms the pairs of ranks and sends copies within them.
#include "save/memory_mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "libtrain/error.h"
#include "save/broadcast_payload.h"

namespace lt::saver {
namespace {

// Hosts send in rounds, so that each is in at most one pair at a time. Even hosts send in round 0 and odd hosts in
// round 1. If the number of hosts is odd, the last one sends to the first in round 2.
int round_of(int host, int hosts) { return hosts % 2 == 1 && host == hosts - 1 ? 2 : host % 2; }

// The rank in the same place as `rank`, `further` hosts ahead (negative: behind). All hosts must have the same number
// of ranks.
int counterpart_of(const MemoryHosts& hosts, int rank, int further) {
  const auto r = static_cast<std::size_t>(rank);
  const int host = (hosts.host_of[r] + further + hosts.count()) % hosts.count();
  return hosts.ranks[static_cast<std::size_t>(host)][static_cast<std::size_t>(hosts.place_of[r])];
}
// The rank that `rank` sends to.
int receiver_of(const MemoryHosts& hosts, int rank) { return counterpart_of(hosts, rank, 1); }

bool can_mirror(const MemoryHosts& hosts) {
  const auto differs = [&](const std::vector<int>& ranks) { return ranks.size() != hosts.ranks[0].size(); };
  return hosts.count() > 1 && std::none_of(hosts.ranks.begin(), hosts.ranks.end(), differs);
}

}  // namespace

std::string slots_name(int rank) { return fmt::format("rank-{:05d}", rank); }
std::string mirror_name(int rank) { return fmt::format("mirror-{:05d}", rank); }

int mirrored_rank(const MemoryHosts& hosts, int rank) {
  return can_mirror(hosts) ? counterpart_of(hosts, rank, -1) : -1;
}

MemoryMirror::MemoryMirror(const Group& group, const MemoryHosts& hosts, const checkpoint::CopyOwner& owner,
                           const std::vector<checkpoint::CopyRange>& layout) {
  if (!can_mirror(hosts)) return;
  struct {
    int rank;
    std::string layout;
  } received;  // from the rank whose copy is kept here
  for (int round = 0; round < 2 + hosts.count() % 2; ++round) {
    // The color of a pair is its sender's rank. A rank without a pair gets a color of its own.
    std::vector<int> color;
    for (int r = 0; r < group.size(); ++r) color.push_back(group.size() + r);
    for (int r = 0; r < group.size(); ++r) {
      if (round_of(hosts.host_of[static_cast<std::size_t>(r)], hosts.count()) != round) continue;
      color[static_cast<std::size_t>(r)] = color[static_cast<std::size_t>(receiver_of(hosts, r))] = r;
    }
    const Group pair =
        group.split([&](int r) { return color[static_cast<std::size_t>(r)]; }, "mirror").duplicate_patient("mirror");
    if (pair.size() == 1) continue;
    const int sender = color[static_cast<std::size_t>(group.rank())];
    const int root = sender < receiver_of(hosts, sender) ? 0 : 1;
    const std::string theirs = pair.broadcast_bytes(to_text(layout), root);
    if (sender != group.rank()) received = {sender, theirs};
    exchanges_.push_back({pair, root, nullptr});
  }
  collectively(group, [&] {
    const auto theirs = checkpoint::layout_of(received.layout);
    if (!theirs) throw InternalError("checkpoint", "memory: a peer's layout cannot be read");
    for (Exchange& exchange : exchanges_) {
      if (exchange.pair.rank() == exchange.sender) continue;
      exchange.kept = std::make_unique<CopySlots>(
          mirror_name(received.rank), checkpoint::CopyOwner{owner.run, received.rank, owner.ranks}, *theirs);
    }
  });
}

void MemoryMirror::exchange(const checkpoint::MemoryCopy& copy) const {
  std::exception_ptr failed;  // thrown at the end, because the peers of later exchanges wait for this rank
  for (const auto& [pair, sender, kept] : exchanges_) {
    const bool sends = kept == nullptr;
    const std::string seal = pair.broadcast_bytes(sends ? to_text(copy.sealed()) : "", sender);
    const std::string state = pair.broadcast_bytes(sends ? copy.state() : "", sender);
    checkpoint::MemoryCopy* const to = sends ? nullptr : &kept->next();
    if (to != nullptr) to->unseal();
    const Size bytes = sends ? copy.payload_bytes() : to->payload_bytes();
    broadcast_payload(pair, sender, sends ? &copy : nullptr, bytes, [&](Size at, std::span<const std::byte> piece) {
      if (to != nullptr) std::memcpy(to->payload() + at, piece.data(), piece.size());
    });
    if (to == nullptr) continue;
    try {
      to->seal(checkpoint::seal_of(seal), state);
    } catch (const DataError&) {
      failed = std::current_exception();
    }
  }
  if (failed != nullptr) std::rethrow_exception(failed);
}

const CopySlots* MemoryMirror::kept() const {
  for (const Exchange& exchange : exchanges_) {
    if (exchange.kept != nullptr) return exchange.kept.get();
  }
  return nullptr;
}

}  // namespace lt::saver
