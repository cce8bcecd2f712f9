// Formats ranks, calls and steps, each in a bounded length.
#include "watchdog/diagnosis_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/progress.h"

namespace lt::watchdog {
namespace {

// How many ranges of ranks a text names at most, so that it stays on one line.
constexpr std::size_t kMostRanges = 16;
constexpr std::size_t kMostCalls = 2;

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) value /= 1024, ++unit;
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

}  // namespace

std::string ranks_text(const Peers& peers) {
  std::string text = peers.size() == 1 ? "rank " : "ranks ";
  std::size_t ranges = 0;
  for (std::size_t i = 0; i < peers.size();) {
    std::size_t end = i + 1;
    while (end < peers.size() && peers[end]->rank == peers[end - 1]->rank + 1) ++end;
    if (end - i == 2) end = i + 1;  // "0, 1"
    if (++ranges > kMostRanges) return text + fmt::format(" and {} more", peers.size() - i);
    text += fmt::format("{}{}", i == 0 ? "" : ", ", peers[i]->rank);
    if (end - i > 1) text += fmt::format("-{}", peers[end - 1]->rank);
    i = end;
  }
  return text;
}

std::string text_of(const Peers& peers) {
  const Peer& first = *peers.front();
  if (peers.size() == 1) return fmt::format("rank {} (host {}, pid {})", first.rank, first.host, first.pid);
  const bool one_host =
      std::all_of(peers.begin(), peers.end(), [&](const Peer* peer) { return peer->host == first.host; });
  return ranks_text(peers) + (one_host ? fmt::format(" (host {})", first.host) : "");
}

std::string text_of(const GroupStatus& group, const Call& call) {
  const std::string size = call.whole == 0 ? "" : ", " + bytes_text(call.whole);
  return fmt::format("{} \"{}\" (#{} of group {}{})", to_string(call.op), call.name, call.sequence, group.name, size);
}

std::string place_of(const Peer& peer, const std::vector<IncompleteCall>& incomplete, std::int64_t newest_step) {
  const RankStatus& status = peer.status;
  std::int64_t step = status.step;
  for (const IncompleteCall& call : incomplete) {
    if (std::find(call.missing.begin(), call.missing.end(), &peer) == call.missing.end()) continue;
    for (const Peer* waiting : call.waiting) step = std::max(step, waiting->status.step);
  }
  if (step > status.step) return fmt::format(" at step {}", step);
  if (newest_step > status.step) return fmt::format(" at about step {}", newest_step);
  std::string text = step == 0 ? " before the first step" : fmt::format(" at step {}", step);
  if (status.phase != Phase::none && status.phase != Phase::step)
    text += fmt::format(", in {}", device::to_string(status.phase));
  return text;
}

std::string waiters_of(const Peers& awaited, const std::vector<IncompleteCall>& incomplete) {
  struct Waiters {
    const IncompleteCall* call;
    Peers peers;
  };
  std::vector<Waiters> all;
  const auto is_awaited = [&](const Peer* peer) { return std::binary_search(awaited.begin(), awaited.end(), peer); };
  for (const IncompleteCall& call : incomplete) {
    if (std::none_of(call.missing.begin(), call.missing.end(), is_awaited)) continue;
    Waiters& waiters = all.emplace_back(Waiters{&call, {}});
    for (const Peer* peer : call.waiting) {
      if (!is_awaited(peer)) waiters.peers.push_back(peer);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.peers.size() > b.peers.size(); });
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kMostCalls) && !all[i].peers.empty(); ++i) {
    const auto& [call, peers] = all[i];
    text += fmt::format("{}{}", i == 0 ? "; " : ", ", ranks_text(peers));
    if (i == 0)
      text += fmt::format(" wait{} for {}", peers.size() == 1 ? "s" : "", awaited.size() == 1 ? "it" : "them");
    text += " in " + text_of(*call->group, *call->call);
  }
  return text;
}

}  // namespace lt::watchdog
