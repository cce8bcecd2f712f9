// The last calls of a group, with where each of them stands, and those of all groups of the process. Thread-safe: the
// watchdog reads while ranks work.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "comm/group_place.h"
#include "libtrain/comm/group.h"

namespace lt {

// Two words of pinned memory that a group's stream writes: how many calls it has come to, and how many it has ended. A
// graph writes again what it wrote when it was captured.
struct DeviceWords {
  std::uint32_t begun = 0, ended = 0;
};

// A group as its rank sees it.
struct GroupCalls {
  GroupPlace place;
  std::uint64_t begun = 0;              // calls that this rank has come to
  bool as_device = false;               // those that its device has come to; a graph makes the same ones again
  bool in_background = false;           // the last call is of a BackgroundScope
  std::vector<CollectiveRecord> calls;  // oldest first
};

class CallLog {
 public:
  explicit CallLog(const GroupPlace& place);
  ~CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;

  // A call begins; returns its sequence number. `whole` is CollectiveRecord::whole.
  std::uint64_t begin(CollectiveOp op, std::string_view name, Size bytes, Size whole, bool on_device = false);
  // The host waits for it no longer.
  void end(std::uint64_t sequence);
  // The number of the call that began last.
  std::uint64_t newest() const;
  // From now on the device says in `words` how far calls on it have come.
  void watch(std::shared_ptr<const DeviceWords> words);

  // Oldest first, at most Group::kLogLength.
  std::vector<CollectiveRecord> last() const { return calls(Group::kLogLength, false).calls; }
  // The last `most` calls; `as_device`: only up to the last that the device has come to, where it has words.
  GroupCalls calls(std::size_t most, bool as_device) const;
  // Moves when the device does.
  std::uint64_t device_words() const;

 private:
  struct Entry {
    CollectiveOp op;
    bool on_device, in_background, ended;
    std::string name;
    Size bytes, whole;
    std::chrono::steady_clock::time_point begin;
  };
  Entry& at(std::uint64_t sequence) { return ring_[sequence % Group::kLogLength]; }
  const Entry& at(std::uint64_t sequence) const { return ring_[sequence % Group::kLogLength]; }

  const GroupPlace place_;
  const bool counts_;  // other processes take part in it
  mutable std::mutex mutex_;
  std::uint64_t next_ = 0, next_host_ = 0;  // after the last call, and the last that is no device's
  std::vector<Entry> ring_;
  std::shared_ptr<const DeviceWords> words_;
};

// CallLog::calls() of each group of the process that has more than one rank and made a call.
std::vector<GroupCalls> calls_of_groups(std::size_t most, bool as_device);
// Moves when a device does.
std::uint64_t device_progress();

// A call that blocks, from its begin to its end.
class CallScope {
 public:
  CallScope(CallLog& log, CollectiveOp op, std::string_view name, Size bytes, Size whole, bool on_device = false)
      : log_(log), sequence_(log.begin(op, name, bytes, whole, on_device)) {}
  ~CallScope() { log_.end(sequence_); }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  CallLog& log_;
  std::uint64_t sequence_;
};

// While it lives, calls that this thread begins on meta groups are appended to the list.
using CallListScope = ContextMemberScope<&Context::calls>;

}  // namespace lt
