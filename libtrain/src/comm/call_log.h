// Logs the last calls of each group and their progress, and lists the calls of all groups of the process. Thread-safe:
// the watchdog reads the log while ranks work.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "comm/group_place.h"
#include "libtrain/comm/group.h"

namespace lt::comm {

// Two words of pinned memory that a group's streams write: how many calls the device has begun, and how many it has
// ended. A CUDA graph writes the values of its capture again at every launch.
struct DeviceWords {
  std::uint32_t begun = 0, ended = 0;
};

// The groups that make calls in a CUDA graph. Not thread-safe.
class GraphCalls {
 public:
  // The group of `words` makes call number `sequence`.
  void add(const std::shared_ptr<DeviceWords>& words, std::uint64_t sequence);
  // Call it before each launch of the graph. Sets the words back to the first call, so that they do not show calls that
  // this launch has not reached.
  void rewind(const Stream& stream) const;

 private:
  struct First {
    std::shared_ptr<DeviceWords> words;
    std::uint32_t sequence;
  };
  std::vector<First> first_;
};

// A group's calls as its rank sees them.
struct GroupCalls {
  GroupPlace place;
  std::uint64_t begun = 0;              // number of calls that this rank has begun
  bool as_device = false;               // true: `begun` is the device's count; a graph repeats the same calls
  bool in_background = false;           // the last call was made in a BackgroundScope
  std::vector<CollectiveRecord> calls;  // oldest first
};

class CallLog {
 public:
  explicit CallLog(const GroupPlace& place);
  ~CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;

  // Records that a call begins and returns its sequence number. `whole`: bytes of the full tensor.
  std::uint64_t begin(CollectiveOp op, std::string_view name, Size bytes, Size whole, bool on_device = false);
  // The host no longer waits for the call.
  void end(std::uint64_t sequence);
  // The sequence number of the newest call.
  std::uint64_t newest() const;
  // From now on the device reports the progress of its calls in `words`.
  void watch(std::shared_ptr<DeviceWords> words);

  // Oldest first, at most Group::kLogLength.
  std::vector<CollectiveRecord> last() const { return calls(Group::kLogLength, false).calls; }
  // The last `most` calls. If `as_device` and the group has device words: only calls that the device has begun.
  GroupCalls calls(std::size_t most, bool as_device) const;
  // Changes when the device makes progress.
  std::uint64_t device_words() const;

 private:
  struct Entry {
    CollectiveOp op;
    bool on_device, in_background, ended;
    std::string name;
    Size bytes, whole;
    std::chrono::steady_clock::time_point begin;
  };
  // Returns null if the log no longer holds the call.
  const Entry* find(std::uint64_t sequence) const;
  Entry& at(std::uint64_t sequence) { return ring_[sequence % Group::kLogLength]; }
  const Entry& at(std::uint64_t sequence) const { return ring_[sequence % Group::kLogLength]; }

  const GroupPlace place_;
  const bool counts_;  // the group has ranks in other processes
  mutable std::mutex mutex_;
  std::uint64_t next_ = 0, next_host_ = 0;  // one past the last call, and one past the last host call
  std::vector<Entry> ring_;
  std::map<std::uint64_t, Entry> in_graphs_;  // calls that a device may make again at any time
  std::shared_ptr<DeviceWords> words_;
};

// Returns CallLog::calls() of every group of the process that has several ranks and has made a call.
std::vector<GroupCalls> calls_of_groups(std::size_t most, bool as_device);
// Returns the 64 such groups that were destroyed last, newest first. They have counts of calls, but no calls.
std::vector<GroupCalls> ended_groups();
// Changes when a device makes progress.
std::uint64_t device_progress();

// Logs a blocking call from begin to end.
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

}  // namespace lt::comm
