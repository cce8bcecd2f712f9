// Assigns offsets in an arena to blocks with known lifetimes. Tries several greedy orders and keeps the smallest
// result.
#include "libtrain/memory/memory_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace lt {
namespace {

using Order = std::vector<std::size_t>;

// A block in the arena: its bytes [first, last) and its life.
struct PlacedBlock {
  Size first, last;
  std::int64_t begin, end;
  bool operator<(const PlacedBlock& other) const { return std::pair(first, last) < std::pair(other.first, other.last); }
};

bool live_together(const PlacedBlock& block, const Lifetime& entry) {
  return entry.begin < block.end && block.begin < entry.end;
}

// The placed blocks in buckets of time. Blocks that live at the same time as a given one are found without searching
// all others.
class Placed {
 public:
  explicit Placed(const std::vector<Lifetime>& lifetimes) {
    std::int64_t end = 1;
    for (const Lifetime& entry : lifetimes) end = std::max(end, entry.end);
    const auto count = std::max<std::int64_t>(kFewestBuckets, static_cast<std::int64_t>(lifetimes.size()) / kInBucket);
    width_ = end / count + 1;
    covered_.resize(static_cast<std::size_t>(count) + 1);
    begun_.resize(static_cast<std::size_t>(count) + 1);
  }

  void add(const Lifetime& entry, Size offset) {
    const PlacedBlock block{offset, offset + entry.bytes, entry.begin, entry.end};
    const auto [first, last] = buckets(entry);
    begun_[first].push_back(block);
    for (std::size_t b = first; b <= last; ++b) {
      covered_[b].insert(std::upper_bound(covered_[b].begin(), covered_[b].end(), block), block);
    }
  }

  // All placed blocks that live at the same time as `entry`, sorted by their bytes.
  void neighbours(const Lifetime& entry, std::vector<PlacedBlock>& found) const {
    found.clear();
    const auto add_from = [&](const std::vector<PlacedBlock>& blocks) {
      for (const PlacedBlock& block : blocks) {
        if (live_together(block, entry)) found.push_back(block);
      }
    };
    const auto [first, last] = buckets(entry);
    add_from(covered_[first]);
    const auto sorted = static_cast<std::ptrdiff_t>(found.size());
    for (std::size_t b = first + 1; b <= last; ++b) add_from(begun_[b]);
    std::sort(found.begin() + sorted, found.end());
    std::inplace_merge(found.begin(), found.begin() + sorted, found.end());
  }

 private:
  // Buckets grow in number with the blocks, or a short block of a step of many micro-batches would have to be compared
  // with ever more others.
  static constexpr std::int64_t kFewestBuckets = 256, kInBucket = 32;

  // The first and last bucket in which `entry` lives.
  std::pair<std::size_t, std::size_t> buckets(const Lifetime& entry) const {
    return {static_cast<std::size_t>(entry.begin / width_), static_cast<std::size_t>((entry.end - 1) / width_)};
  }

  std::int64_t width_;
  // By bucket: blocks that live in it, sorted by their bytes, and blocks that begin in it.
  std::vector<std::vector<PlacedBlock>> covered_, begun_;
};

enum class Gap { lowest, smallest };

Packing pack_in_order(const std::vector<Lifetime>& lifetimes, const Order& order, Gap wanted) {
  Packing packing;
  packing.offsets.resize(lifetimes.size());
  Placed placed(lifetimes);
  std::vector<PlacedBlock> neighbours;
  for (const std::size_t index : order) {
    const Size bytes = lifetimes[index].bytes;
    placed.neighbours(lifetimes[index], neighbours);
    Size top = 0, best = -1, best_gap = 0;
    for (const PlacedBlock& block : neighbours) {
      const Size gap = block.first - top;
      if (gap >= bytes && (best < 0 || gap < best_gap)) {
        best = top, best_gap = gap;
        if (wanted == Gap::lowest) break;
      }
      top = std::max(top, block.last);
    }
    if (best < 0) best = top;
    packing.offsets[index] = best;
    packing.bytes = std::max(packing.bytes, best + bytes);
    placed.add(lifetimes[index], best);
  }
  return packing;
}

}  // namespace

MemoryUse fullest_moment(const std::vector<Lifetime>& lifetimes) {
  struct Change {
    std::int64_t time;
    Size bytes;
    MemoryOwner owner;
    auto operator<=>(const Change&) const = default;
  };
  std::vector<Change> changes;
  for (const Lifetime& entry : lifetimes) {
    changes.push_back({entry.begin, entry.bytes, entry.owner});
    changes.push_back({entry.end, -entry.bytes, entry.owner});
  }
  std::sort(changes.begin(), changes.end());  // at equal times frees come first, since they are negative
  MemoryUse live, most;
  for (const Change& change : changes) {
    live.by_owner[static_cast<std::size_t>(change.owner)] += change.bytes;
    live.total += change.bytes;
    if (live.total > most.total) most = live;
  }
  return most;
}

Size most_live_bytes(const std::vector<Lifetime>& lifetimes) { return fullest_moment(lifetimes).total; }

Size bytes_without_arena(const std::vector<Lifetime>& lifetimes) {
  std::map<Size, std::vector<Lifetime>> by_size;
  for (const Lifetime& entry : lifetimes) by_size[entry.bytes].push_back(entry);
  Size sum = 0;
  for (const auto& [bytes, same_size] : by_size) sum += most_live_bytes(same_size);
  return sum;
}

Packing pack(const std::vector<Lifetime>& lifetimes) {
  const Size least = most_live_bytes(lifetimes);
  const auto sorted = [&](auto key) {
    Order order(lifetimes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key(lifetimes[a]) > key(lifetimes[b]); });
    return order;
  };
  const std::function<double(const Lifetime&)> keys[] = {
      [](const Lifetime& x) { return static_cast<double>(x.bytes); },
      [](const Lifetime& x) { return static_cast<double>(x.bytes) * static_cast<double>(x.end - x.begin); },
      [](const Lifetime& x) { return static_cast<double>(x.end - x.begin); },
      [](const Lifetime& x) { return -static_cast<double>(x.begin); },
      [](const Lifetime& x) { return static_cast<double>(x.end); },
  };
  Packing best;
  best.bytes = -1;
  for (const auto& key : keys) {
    const Order order = sorted(key);
    for (const Gap gap : {Gap::lowest, Gap::smallest}) {
      Packing packing = pack_in_order(lifetimes, order, gap);
      if (best.bytes < 0 || packing.bytes < best.bytes) best = std::move(packing);
      if (best.bytes == least) return best;
    }
  }
  return best;
}

}  // namespace lt
