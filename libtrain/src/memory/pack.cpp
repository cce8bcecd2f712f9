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

bool overlap(const Lifetime& a, const Lifetime& b) { return a.begin < b.end && b.begin < a.end; }

// The placed blocks in buckets of time. Blocks that live at the same time as a given one are found without searching
// all others.
class Placed {
 public:
  explicit Placed(const std::vector<Lifetime>& lifetimes) : lifetimes_(lifetimes) {
    std::int64_t end = 1;
    for (const Lifetime& entry : lifetimes) end = std::max(end, entry.end);
    width_ = std::max<std::int64_t>(1, end / kBuckets + 1);
    covered_.resize(kBuckets + 1);
    begun_.resize(kBuckets + 1);
  }

  void add(std::size_t index, Size offset) {
    const auto [first, last] = buckets(lifetimes_[index]);
    begun_[first].push_back({index, offset});
    for (std::size_t b = first; b <= last; ++b) covered_[b].push_back({index, offset});
  }

  // The ranges [begin, end) in bytes of all placed blocks that live at the same time as `entry`, sorted by begin.
  void neighbours(const Lifetime& entry, std::vector<std::pair<Size, Size>>& ranges) const {
    ranges.clear();
    const auto add_from = [&](const std::vector<Place>& places) {
      for (const auto& [index, offset] : places) {
        if (overlap(entry, lifetimes_[index])) ranges.emplace_back(offset, offset + lifetimes_[index].bytes);
      }
    };
    const auto [first, last] = buckets(entry);
    add_from(covered_[first]);
    for (std::size_t b = first + 1; b <= last; ++b) add_from(begun_[b]);
    std::sort(ranges.begin(), ranges.end());
  }

 private:
  using Place = std::pair<std::size_t, Size>;  // index, offset
  static constexpr std::int64_t kBuckets = 256;

  // The first and last bucket in which `entry` lives.
  std::pair<std::size_t, std::size_t> buckets(const Lifetime& entry) const {
    return {static_cast<std::size_t>(entry.begin / width_), static_cast<std::size_t>((entry.end - 1) / width_)};
  }

  const std::vector<Lifetime>& lifetimes_;
  std::int64_t width_;
  std::vector<std::vector<Place>> covered_, begun_;  // by bucket: blocks that live in it, and blocks that begin in it
};

enum class Gap { lowest, smallest };

Packing place(const std::vector<Lifetime>& lifetimes, const Order& order, Gap wanted) {
  Packing packing;
  packing.offsets.resize(lifetimes.size());
  Placed placed(lifetimes);
  std::vector<std::pair<Size, Size>> ranges;
  for (const std::size_t index : order) {
    const Size bytes = lifetimes[index].bytes;
    placed.neighbours(lifetimes[index], ranges);
    Size top = 0, best = -1, best_gap = 0;
    for (const auto& [begin, end] : ranges) {
      const Size gap = begin - top;
      if (gap >= bytes && (best < 0 || gap < best_gap)) {
        best = top, best_gap = gap;
        if (wanted == Gap::lowest) break;
      }
      top = std::max(top, end);
    }
    if (best < 0) best = top;
    packing.offsets[index] = best;
    packing.bytes = std::max(packing.bytes, best + bytes);
    placed.add(index, best);
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
      Packing packing = place(lifetimes, order, gap);
      if (best.bytes < 0 || packing.bytes < best.bytes) best = std::move(packing);
      if (best.bytes == least) return best;
    }
  }
  return best;
}

}  // namespace lt
