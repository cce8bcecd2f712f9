// The rules, the most certain first. A rank that waits for others is not blamed, unless ranks wait for each other: only
// a rank that waits for no other rank can hold up the rest.
#include "watchdog/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "device/progress.h"
#include "watchdog/diagnosis_text.h"

namespace lt::watchdog {
namespace {

constexpr double kTimesSlowestStep = 10;
// A rank that fails prints its error and ends the run itself; the others give it this long.
constexpr double kFailureGraceS = 10;

class Diagnosis {
 public:
  Diagnosis(const std::vector<Peer>& peers, const Limits& limits) : peers_(peers), limits_(limits) {
    for (const Peer& peer : peers) {
      slowest_step_s_ = std::max(slowest_step_s_, peer.status.slowest_step_s);
      newest_step_ = std::max(newest_step_, peer.status.step);
    }
  }

  std::optional<Verdict> verdict() {
    const bool suspicious = std::any_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
      return peer.link == Link::closed || is_silent(peer) || stands_still(peer);
    });
    if (!suspicious) return std::nullopt;
    incomplete_ = incomplete_calls_of(peers_);
    for (const IncompleteCall& call : incomplete_) {
      if (call.group->stride != 0 && call.known < call.group->size) {
        for (const Peer* peer : call.waiting) may_wait_[index_of(peer)] = true;
      }
      if (call.missing.empty()) continue;
      for (const Peer* peer : call.waiting) waits_[index_of(peer)] = true;
      for (const Peer* peer : call.missing) is_awaited_[index_of(peer)] = true;
    }
    for (const auto rule : {&Diagnosis::gone, &Diagnosis::silent, &Diagnosis::mismatch, &Diagnosis::ended,
                            &Diagnosis::hang, &Diagnosis::deadlock}) {
      if (auto found = (this->*rule)()) return found;
    }
    return std::nullopt;
  }

 private:
  std::size_t index_of(const Peer* peer) const { return static_cast<std::size_t>(peer - peers_.data()); }
  bool is_silent(const Peer& peer) const {
    return peer.link == Link::open && !peer.is_traced && peer.silent_s > limits_.heartbeat_s;
  }
  bool stands_still(const Peer& peer) const {
    return peer.link == Link::open && peer.status.still_s > limits_.heartbeat_s;
  }
  bool is_out_of_time(const Peer& peer) const {
    return peer.link == Link::open && !peer.is_traced &&
           peer.status.still_s > limit_s(peer.status, slowest_step_s_, limits_);
  }
  // The phase of the rank that it may wait for is unknown.
  bool is_in_time_for_others(const Peer& peer) const {
    return may_wait_[index_of(&peer)] && peer.status.still_s <= device::patience(Phase::save) * limits_.collective_s;
  }
  template <class Predicate>
  Peers those(Predicate&& predicate) const {
    Peers found;
    for (const Peer& peer : peers_) {
      if (predicate(peer)) found.push_back(&peer);
    }
    return found;
  }
  static Verdict blame(Fault fault, const Peers& peers, std::string message, std::string hint) {
    Verdict verdict{fault, {}, std::move(message), std::move(hint)};
    for (const Peer* peer : peers) verdict.ranks.push_back(peer->rank);
    return verdict;
  }

  std::optional<Verdict> gone() {
    const Peers found = those([](const Peer& peer) { return peer.link == Link::closed; });
    if (found.empty()) return std::nullopt;
    return blame(
        Fault::gone, found,
        fmt::format("{}: {} gone, {} connection closed without a goodbye{}{}", text_of(found),
                    found.size() == 1 ? "the process is" : "the processes are", found.size() == 1 ? "its" : "their",
                    place_of(*found.front(), incomplete_, newest_step_), waiters_of(found, incomplete_)),
        "its own message or the launcher's says why it ended; dmesg tells of the kernel's out-of-memory killer");
  }

  std::optional<Verdict> silent() {
    const Peers found = those([&](const Peer& peer) { return is_silent(peer); });
    if (found.empty()) return std::nullopt;
    const Peer& first = *found.front();
    return blame(Fault::silent, found,
                 fmt::format("{}: no sign of life for {:.1f} s{}{}{}", text_of(found), first.silent_s,
                             place_of(first, incomplete_, newest_step_), first.state.empty() ? "" : ", " + first.state,
                             waiters_of(found, incomplete_)),
                 "stopped, or its host or the network to it is gone; for a debugger set a larger watchdog.heartbeat_s");
  }

  std::optional<Verdict> mismatch() {
    for (const Mismatch& found : mismatches_of(peers_)) {
      if (!stands_still(*found.one) && !stands_still(*found.other)) continue;
      return blame(
          Fault::mismatch, {found.one, found.other},
          fmt::format("different collectives{}: {} reached {}, {} reached {}", place_of(*found.one, incomplete_),
                      text_of({found.one}), text_of(*found.group, *found.of_one), text_of({found.other}),
                      text_of(*found.group, *found.of_other)),
          "all ranks of a group make the same collectives in the same order and sizes: what differs between "
          "these ranks?");
    }
    return std::nullopt;
  }

  std::optional<Verdict> ended() {
    for (const IncompleteCall& call : incomplete_) {
      for (const Peer* peer : call.missing) {
        if (peer->link != Link::done && peer->link != Link::failed) continue;
        const double grace =
            peer->link == Link::done ? limits_.heartbeat_s : std::max(limits_.heartbeat_s, kFailureGraceS);
        // A rank may have waited long for a healthy peer, which then fails: the grace begins with its goodbye.
        if (std::min(call.waiting.front()->status.still_s, peer->silent_s) <= grace) continue;
        return blame(Fault::ended, {peer},
                     fmt::format("{}: has {} its run{}{}", text_of({peer}),
                                 peer->link == Link::done ? "ended" : "failed and left", place_of(*peer, incomplete_),
                                 waiters_of({peer}, incomplete_)),
                     peer->link == Link::done ? "all ranks must make the same number of steps and collectives"
                                              : "its own message says why");
      }
    }
    return std::nullopt;
  }

  // A rank in no collective and no phase, for which nobody waits, may be doing anything, so it is not blamed.
  std::optional<Verdict> hang() {
    const Peers found = those([&](const Peer& peer) {
      const GroupStatus* group = nullptr;
      return is_out_of_time(peer) && !waits_[index_of(&peer)] && !is_in_time_for_others(peer) &&
             (peer.status.phase != Phase::none || open_call(peer, group) != nullptr || is_awaited_[index_of(&peer)]);
    });
    if (found.empty()) return std::nullopt;
    const Peer& first = *found.front();
    const std::string begin = fmt::format("{}: no progress for {:.1f} s{}", text_of(found), first.status.still_s,
                                          place_of(first, incomplete_));
    const std::string waiters = waiters_of(found, incomplete_);
    const GroupStatus* group = nullptr;
    if (const Call* const call = open_call(first, group)) {
      const bool knows_all = !may_wait_[index_of(&first)];
      return blame(Fault::hang, found,
                   fmt::format("{}: {} does not end, {}{}", begin, text_of(*group, *call),
                               knows_all ? "although all its ranks reached it" : "and not all its ranks are known here",
                               waiters),
                   knows_all
                       ? "the network between the ranks, or a device: NCCL_DEBUG=INFO, and dmesg (Xid) on their hosts"
                       : "another rank of the group may be stopped or hang");
    }
    return blame(Fault::hang, found, begin + waiters,
                 fmt::format("gdb -p {} on host {} says where it is; work without its peers that takes longer wants a "
                             "larger watchdog.collective_s",
                             first.pid, first.host));
  }

  // Starts at a rank that is out of time and follows the awaited ranks until one repeats.
  std::optional<Verdict> deadlock() {
    for (const Peer& start : peers_) {
      Peers path;
      const Peer* at = &start;
      while (at != nullptr && is_out_of_time(*at) && std::find(path.begin(), path.end(), at) == path.end()) {
        path.push_back(at);
        at = awaited_by(*at);
      }
      const auto again = std::find(path.begin(), path.end(), at);
      if (again == path.end()) continue;
      path.erase(path.begin(), again);
      std::sort(path.begin(), path.end(), [](const Peer* a, const Peer* b) { return a->rank < b->rank; });
      std::string places;
      for (const Peer* peer : path) {
        const GroupStatus* group = nullptr;
        const Call* const call = open_call(*peer, group);
        places += fmt::format("{} rank {} in {}", places.empty() ? "" : ",", peer->rank, text_of(*group, *call));
      }
      return blame(Fault::deadlock, path,
                   fmt::format("{}: no progress for {:.1f} s{}: they wait for each other,{}", text_of(path),
                               path.front()->status.still_s, place_of(*path.front(), incomplete_), places),
                   "ranks that share several groups must take their collectives in the same order over all groups, and "
                   "the batches of a step must have the same shapes on all ranks");
    }
    return std::nullopt;
  }
  const Peer* awaited_by(const Peer& peer) const {
    for (const IncompleteCall& call : incomplete_) {
      if (!call.missing.empty() && std::find(call.waiting.begin(), call.waiting.end(), &peer) != call.waiting.end()) {
        return call.missing.front();
      }
    }
    return nullptr;
  }

  const std::vector<Peer>& peers_;
  const Limits& limits_;
  double slowest_step_s_ = 0;
  std::int64_t newest_step_ = 0;
  std::vector<IncompleteCall> incomplete_;
  // By peer. may_wait_: in a call of a group with ranks that are no peers.
  std::vector<bool> waits_ = std::vector<bool>(peers_.size()), is_awaited_ = waits_, may_wait_ = waits_;
};

}  // namespace

double limit_s(const RankStatus& status, double slowest_step_s, const Limits& limits) {
  return std::max(device::patience(status.phase) * limits.collective_s, kTimesSlowestStep * slowest_step_s);
}

std::optional<Verdict> diagnose(const std::vector<Peer>& peers, const Limits& limits) {
  return Diagnosis(peers, limits).verdict();
}

}  // namespace lt::watchdog
