// The process-wide totals. A collective is counted when it starts; its times are added after the wait for it. Memory
// stays bounded even if no caller takes the totals.
#include "comm/collective_log.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace lt::comm {
namespace {

constexpr auto kOps = static_cast<std::size_t>(CollectiveOp::exchange);  // only the ops before it are counted

// How many times are held one by one. Beyond that, finished ones are added up.
constexpr std::size_t kMostHeld = 4096;

bool is_over(const CollectiveTimes& times) {
  return times.begin.is_over() && times.awaited.is_over() && times.end.is_over();
}

}  // namespace

// Collects the next lap.
class CollectiveRecorder {
 public:
  // A recorder that holds everything is for comm_lap_of().
  explicit CollectiveRecorder(bool holds_everything = false) : holds_everything_(holds_everything) {}

  CommTotal& of(CollectiveOp op) { return by_op_[static_cast<std::size_t>(op)]; }

  void add(CollectiveTimes times) {
    times_.push_back(std::move(times));
    if (holds_everything_ || times_.size() <= fold_at_) return;
    fold();
    fold_at_ = std::max(kMostHeld, 2 * times_.size());  // if the device lags far behind, look again much later
  }

  void add_launch(const std::shared_ptr<const CommLap>& lap) {
    for (const CommTotal& count : lap->counts) of(count.op).bytes += count.bytes, of(count.op).calls += count.calls;
    for (CommLap::Launches& entry : launches_) {
      if (entry.lap == lap) return static_cast<void>(++entry.count);
    }
    std::erase_if(launches_, [&](const CommLap::Launches& entry) { return fold_if_gone(entry); });
    launches_.push_back({lap, 1});
  }

  CommLap take() {
    CommLap lap;
    for (std::size_t i = 0; i < by_op_.size(); ++i) {
      by_op_[i].op = static_cast<CollectiveOp>(i);
      if (by_op_[i].calls > 0 || by_op_[i].busy_ms > 0) lap.counts.push_back(by_op_[i]);
    }
    lap.times.reserve(times_.size());  // the next lap will be about as long
    std::swap(lap.times, times_);
    lap.launches = std::move(launches_);
    by_op_ = {}, launches_ = {}, fold_at_ = kMostHeld;
    return lap;
  }

 private:
  void add_up(const CollectiveTimes& times, Size count) {
    of(times.op).busy_ms += static_cast<double>(count) * times.end.ms_since(times.begin);
    of(times.op).exposed_ms += static_cast<double>(count) * times.exposed_ms();
  }

  // Folds from the oldest to the first unfinished one. Adding in the order of CommLap::totals() gives the same bits.
  void fold() {
    const auto end = std::find_if_not(times_.begin(), times_.end(), is_over);
    std::for_each(times_.begin(), end, [&](const CollectiveTimes& times) { add_up(times, 1); });
    times_.erase(times_.begin(), end);
  }

  // A graph that still exists may be launched again and move its time points, so it is not folded.
  bool fold_if_gone(const CommLap::Launches& entry) {
    const std::vector<CollectiveTimes>& times = entry.lap->times;
    if (entry.lap.use_count() > 1 || !std::all_of(times.begin(), times.end(), is_over)) return false;
    for (const CollectiveTimes& each : times) add_up(each, entry.count);
    return true;
  }

  bool holds_everything_;
  std::array<CommTotal, kOps> by_op_{};
  std::vector<CollectiveTimes> times_;
  std::vector<CommLap::Launches> launches_;
  std::size_t fold_at_ = kMostHeld;
};

namespace {

struct Totals {
  std::mutex mutex;
  CollectiveRecorder lap;
  double waiting_ms = 0;
};

// Never destroyed: a Work in a static variable may finish late.
Totals& totals() {
  static auto& instance = *new Totals;
  return instance;
}

// Calls visit() with the thread's own recorder, or with that of the process.
template <class Visit>
void record(Visit&& visit) {
  const Context& context = Context::current();
  if (!context.counts_collectives) return;
  if (context.collectives != nullptr) return visit(*context.collectives);
  Totals& all = totals();
  const std::lock_guard lock(all.mutex);
  visit(all.lap);
}

}  // namespace

void count_collective(CollectiveOp op, Size bytes) {
  record([&](CollectiveRecorder& lap) { lap.of(op).bytes += bytes, lap.of(op).calls += 1; });
}

void count_times(CollectiveTimes times) {
  record([&](CollectiveRecorder& lap) { lap.add(std::move(times)); });
}

WaitingScope::~WaitingScope() {
  if (!Context::current().counts_collectives) return;
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  Totals& all = totals();
  const std::lock_guard lock(all.mutex);
  all.waiting_ms += ms;
}

CommLap comm_lap_of(const std::function<void()>& body) {
  CollectiveRecorder own(true);
  const ContextMemberScope<&Context::collectives> scope(&own);
  body();
  return own.take();
}

void repeat_comm_lap(const std::shared_ptr<const CommLap>& lap) {
  record([&](CollectiveRecorder& recorder) { recorder.add_launch(lap); });
}

}  // namespace lt::comm

namespace lt {

double take_waiting_ms() {
  comm::Totals& all = comm::totals();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.waiting_ms, 0);
}

CommLap take_comm_lap() {
  comm::Totals& all = comm::totals();
  const std::lock_guard lock(all.mutex);
  return all.lap.take();
}

}  // namespace lt
