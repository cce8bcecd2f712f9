// The ring buffer of each group's calls, the list of all groups and of ended ones, and each device's progress through
// its calls.
#include "comm/call_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "device/cuda.h"
#include "device/progress.h"

namespace lt::comm {
namespace {

using LogClock = std::chrono::steady_clock;

constexpr std::size_t kMostEnded = 64;
constexpr std::size_t kMostInGraphs = std::size_t{1} << 14;  // those of the graphs in use, and of some before

struct Register {
  std::mutex mutex;
  std::vector<const CallLog*> logs;
  std::deque<GroupCalls> ended;  // the last to end first
};

// Never destroyed: a group in a static variable may end late.
Register& all_logs() {
  static auto& instance = *new Register;
  return instance;
}

std::uint32_t read(const std::uint32_t& word) { return *static_cast<const volatile std::uint32_t*>(&word); }

// The largest number up to `next` whose low 32 bits are `word`; 0 if there is none.
std::uint64_t widened(std::uint32_t word, std::uint64_t next) {
  return next - std::min<std::uint64_t>(next, static_cast<std::uint32_t>(next) - word);
}

}  // namespace

void GraphCalls::add(const std::shared_ptr<DeviceWords>& words, std::uint64_t sequence) {
  const auto known =
      std::any_of(first_.begin(), first_.end(), [&](const First& first) { return first.words == words; });
  if (!known) first_.push_back({words, static_cast<std::uint32_t>(sequence)});
}

void GraphCalls::rewind(const Stream& stream) const {
  for (const First& first : first_) {
    device::cuda::write_word(&first.words->begun, first.sequence, stream.cuda());
    device::cuda::write_word(&first.words->ended, first.sequence, stream.cuda());
  }
}

CallLog::CallLog(const GroupPlace& place) : place_(place), counts_(place.size > 1 && !place.on_paper) {
  if (!counts_) return;
  const std::lock_guard lock(all_logs().mutex);
  all_logs().logs.push_back(this);
}

CallLog::~CallLog() {
  if (!counts_) return;
  GroupCalls last = calls(0, true);
  last.place.hosts.clear();
  const std::lock_guard lock(all_logs().mutex);
  std::erase(all_logs().logs, this);
  if (last.begun == 0) return;
  all_logs().ended.push_front(std::move(last));
  if (all_logs().ended.size() > kMostEnded) all_logs().ended.pop_back();
}

std::uint64_t CallLog::begin(CollectiveOp op, std::string_view name, Size bytes, Size whole, bool on_device) {
  if (counts_) device::count_progress();
  if (auto* const calls = Context::current().calls; place_.on_paper && calls != nullptr) {
    calls->push_back(fmt::format("{} \"{}\" of {} bytes in group {}", to_string(op), name, whole, place_.name));
  }
  const auto now = LogClock::now();
  const std::lock_guard lock(mutex_);
  if (ring_.size() < Group::kLogLength) ring_.resize(ring_.size() + 1);
  Entry& entry = at(next_);
  entry.op = op, entry.on_device = on_device, entry.in_background = device::is_in_background(), entry.ended = false;
  entry.name = name;  // reuses the string's memory
  entry.bytes = bytes, entry.whole = whole, entry.begin = now;
  if (!on_device) next_host_ = next_ + 1;
  if (GraphCalls* const graph = Context::current().graph_calls) {
    in_graphs_.emplace(next_, entry);
    if (words_ != nullptr) graph->add(words_, next_);
  }
  if (in_graphs_.size() > kMostInGraphs) in_graphs_.erase(in_graphs_.begin());
  return next_++;
}

const CallLog::Entry* CallLog::find(std::uint64_t sequence) const {
  if (next_ - sequence <= ring_.size()) return &at(sequence);
  const auto found = in_graphs_.find(sequence);
  return found == in_graphs_.end() ? nullptr : &found->second;
}

void CallLog::end(std::uint64_t sequence) {
  if (counts_) device::count_progress();
  const std::lock_guard lock(mutex_);
  if (next_ - sequence <= Group::kLogLength) at(sequence).ended = true;
}

std::uint64_t CallLog::newest() const {
  const std::lock_guard lock(mutex_);
  return next_ - 1;
}

void CallLog::watch(std::shared_ptr<DeviceWords> words) {
  const std::lock_guard lock(mutex_);
  words_ = std::move(words);
}

std::uint64_t CallLog::device_words() const {
  const std::lock_guard lock(mutex_);
  return words_ == nullptr ? 0 : std::uint64_t{read(words_->begun)} + read(words_->ended);
}

GroupCalls CallLog::calls(std::size_t most, bool as_device) const {
  const auto now = LogClock::now();
  const std::lock_guard lock(mutex_);
  GroupCalls result{place_, next_, false, false, {}};
  // The device begins a call only after ending the previous one.
  std::uint64_t device_begun = next_, device_ended = next_;
  if (words_ != nullptr) {
    device_ended = widened(read(words_->ended), next_);  // read first, because it follows `begun`
    device_begun = widened(read(words_->begun), next_);
    result.as_device = as_device && device_begun > next_host_;
    if (as_device) result.begun = std::max(device_begun, next_host_);
  }
  for (std::uint64_t i = result.begun - std::min<std::uint64_t>(most, result.begun); i < result.begun; ++i) {
    const Entry* const known = find(i);
    if (known == nullptr) continue;
    const Entry& entry = *known;
    // Calls from `device_begun` on have ended: they belong to a graph that is replaying an earlier call.
    const bool ended =
        entry.on_device && words_ != nullptr ? i < device_ended || (as_device && i >= device_begun) : entry.ended;
    result.calls.push_back({entry.op, entry.name, i, entry.bytes, entry.whole, ended,
                            std::chrono::duration<double>(now - entry.begin).count()});
    result.in_background = entry.in_background;
  }
  return result;
}

std::vector<GroupCalls> calls_of_groups(std::size_t most, bool as_device) {
  const std::lock_guard lock(all_logs().mutex);
  std::vector<GroupCalls> all;
  for (const CallLog* log : all_logs().logs) {
    GroupCalls calls = log->calls(most, as_device);
    if (!calls.calls.empty()) all.push_back(std::move(calls));
  }
  return all;
}

std::vector<GroupCalls> ended_groups() {
  const std::lock_guard lock(all_logs().mutex);
  return {all_logs().ended.begin(), all_logs().ended.end()};
}

std::uint64_t device_progress() {
  const std::lock_guard lock(all_logs().mutex);
  std::uint64_t sum = 0;
  for (const CallLog* log : all_logs().logs) sum += log->device_words();
  return sum;
}

}  // namespace lt::comm
