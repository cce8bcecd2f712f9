// The log's ring and the process-wide totals. A call counts where it starts, its time where it is waited for.
#include "comm/collective_log.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lt {
namespace {

constexpr int kOps = 5;
thread_local bool uncounted = false;

struct Totals {
  std::mutex mutex;
  std::array<CommTotal, kOps> by_op{};
  std::vector<CollectiveTimes> times;
  double waiting_ms = 0;
};

// Never destroyed: a Work in a static variable may finish late.
Totals& totals() {
  static auto& instance = *new Totals;
  return instance;
}

}  // namespace

std::string_view to_string(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::all_gather: return "all_gather";
    case CollectiveOp::reduce_scatter: return "reduce_scatter";
    case CollectiveOp::all_reduce: return "all_reduce";
    case CollectiveOp::broadcast: return "broadcast";
    case CollectiveOp::barrier: return "barrier";
  }
  return "?";
}

void CollectiveLog::add(CollectiveOp op, std::string_view name, Size bytes) {
  const std::lock_guard lock(mutex_);
  CollectiveRecord record{op, std::string(name), next_, bytes};
  if (ring_.size() < Group::kLogLength) {
    ring_.push_back(std::move(record));
  } else {
    ring_[next_ % Group::kLogLength] = std::move(record);
  }
  ++next_;
}

std::vector<CollectiveRecord> CollectiveLog::last() const {
  const std::lock_guard lock(mutex_);
  std::vector<CollectiveRecord> result;
  result.reserve(ring_.size());
  for (std::uint64_t i = next_ - ring_.size(); i < next_; ++i) result.push_back(ring_[i % Group::kLogLength]);
  return result;
}

UncountedScope::UncountedScope() : previous_(uncounted) { uncounted = true; }
UncountedScope::~UncountedScope() { uncounted = previous_; }

void count_collective(CollectiveOp op, Size bytes) {
  if (uncounted) return;
  Totals& all = totals();
  const std::lock_guard lock(all.mutex);
  CommTotal& total = all.by_op[static_cast<std::size_t>(op)];
  total.bytes += bytes;
  total.calls += 1;
}

void count_times(CollectiveTimes times) {
  if (uncounted) return;
  Totals& all = totals();
  const std::lock_guard lock(all.mutex);
  all.times.push_back(std::move(times));
}

WaitingScope::~WaitingScope() {
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  Totals& all = totals();
  const std::lock_guard lock(all.mutex);
  all.waiting_ms += ms;
}

double take_waiting_ms() {
  Totals& all = totals();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.waiting_ms, 0);
}

CommLap take_comm_lap() {
  Totals& all = totals();
  const std::lock_guard lock(all.mutex);
  CommLap lap;
  for (std::size_t i = 0; i < all.by_op.size(); ++i) {
    all.by_op[i].op = static_cast<CollectiveOp>(i);
    if (all.by_op[i].calls > 0) lap.counts.push_back(all.by_op[i]);
    all.by_op[i] = {};
  }
  lap.times.reserve(all.times.size());  // for the next lap, which is alike
  std::swap(lap.times, all.times);
  return lap;
}

void add_comm_lap(const CommLap& lap) {
  if (uncounted) return;
  Totals& all = totals();
  const std::lock_guard lock(all.mutex);
  for (const CommTotal& count : lap.counts) {
    CommTotal& total = all.by_op[static_cast<std::size_t>(count.op)];
    total.bytes += count.bytes, total.calls += count.calls;
  }
  all.times.insert(all.times.end(), lap.times.begin(), lap.times.end());
}

std::vector<CommTotal> CommLap::totals() const {
  std::vector<CommTotal> totals = counts;
  for (const CollectiveTimes& entry : times) {
    auto found =
        std::find_if(totals.begin(), totals.end(), [&](const CommTotal& total) { return total.op == entry.op; });
    // Of a collective that began in an earlier lap.
    if (found == totals.end()) found = totals.insert(found, {entry.op});
    found->busy_ms += entry.end.ms_since(entry.begin);
    found->exposed_ms += std::max(0.0, entry.end.ms_since(entry.awaited));
  }
  return totals;
}

}  // namespace lt
