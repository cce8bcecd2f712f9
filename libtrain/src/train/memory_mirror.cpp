// Pairs of ranks, and what they send each other.
#include "train/memory_mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "libtrain/error.h"

namespace lt {
namespace {

constexpr Size kMirrorPiece = Size{4} << 20;  // bytes of a message

// Hosts send in rounds, so that each is in at most one pair at a time: 0 and 1 are those of even and odd number, 2 is
// the last of an odd number of hosts, whose receiver is the first.
int round_of(int host, int hosts) { return hosts % 2 == 1 && host == hosts - 1 ? 2 : host % 2; }

// The rank to which `rank` sends: of the same place on the next host.
int receiver_of(const MemoryHosts& hosts, int rank) {
  const auto at = [](const std::vector<int>& list, int i) { return list[static_cast<std::size_t>(i)]; };
  const int host = (at(hosts.host_of, rank) + 1) % hosts.count;
  int receiver = 0;
  while (at(hosts.host_of, receiver) != host || at(hosts.place_of, receiver) != at(hosts.place_of, rank)) ++receiver;
  return receiver;
}

bool can_mirror(const MemoryHosts& hosts) {
  const auto other = [&](int ranks) { return ranks != hosts.ranks_on[0]; };
  return hosts.count > 1 && std::none_of(hosts.ranks_on.begin(), hosts.ranks_on.end(), other);
}

}  // namespace

std::string slots_name(int rank) { return fmt::format("rank-{:05d}", rank); }
std::string mirror_name(int rank) { return fmt::format("mirror-{:05d}", rank); }

int mirrored_rank(const MemoryHosts& hosts, int rank) {
  if (!can_mirror(hosts)) return -1;
  int sender = 0;
  while (receiver_of(hosts, sender) != rank) ++sender;
  return sender;
}

MemoryMirror::MemoryMirror(const Group& group, const MemoryHosts& hosts, const checkpoint::CopyOwner& owner,
                           const std::vector<checkpoint::CopyRange>& layout) {
  if (!can_mirror(hosts)) return;
  struct {
    int rank;
    std::string layout;
  } received;  // of the rank whose copy is kept here
  for (int round = 0; round < 2 + hosts.count % 2; ++round) {
    // A pair has its sender's number as color; who is in no pair has one of its own.
    std::vector<int> color;
    for (int r = 0; r < group.size(); ++r) color.push_back(group.size() + r);
    for (int r = 0; r < group.size(); ++r) {
      if (round_of(hosts.host_of[static_cast<std::size_t>(r)], hosts.count) != round) continue;
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
  for (const auto& [pair, sender, kept] : exchanges_) {
    const bool sends = kept == nullptr;
    const std::string seal = pair.broadcast_bytes(sends ? to_text(copy.sealed()) : "", sender);
    checkpoint::MemoryCopy* const to = sends ? nullptr : &kept->next();
    if (to != nullptr) to->unseal();
    const Size bytes = sends ? copy.payload_bytes() : to->payload_bytes();
    for (Size at = 0; at < bytes; at += kMirrorPiece) {
      const auto size = static_cast<std::size_t>(std::min(kMirrorPiece, bytes - at));
      std::string piece;
      if (sends) piece.assign(reinterpret_cast<const char*>(copy.payload() + at), size);
      piece = pair.broadcast_bytes(piece, sender);
      if (to != nullptr) std::memcpy(to->payload() + at, piece.data(), std::min(size, piece.size()));
    }
    if (to != nullptr) to->seal(checkpoint::seal_of(seal));
  }
}

const CopySlots* MemoryMirror::kept() const {
  for (const Exchange& exchange : exchanges_) {
    if (exchange.kept != nullptr) return exchange.kept.get();
  }
  return nullptr;
}

}  // namespace lt
