// Rank status: a rank's report on itself, as a plain value. The diagnosis is a function of the statuses of all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/device/phase.h"
#include "libtrain/profile/collectives.h"

namespace lt::watchdog {

// A collective in a rank status.
struct Call {
  std::uint64_t sequence = 0;
  CollectiveOp op = CollectiveOp::exchange;
  std::string name;
  std::uint64_t whole = 0;  // bytes of the full tensor, the same on all ranks
  bool ended = false;
  bool operator==(const Call&) const = default;
};

// A group's newest calls on one rank.
struct GroupStatus {
  std::uint64_t id = 0;  // equal on all ranks of the group
  // Its ranks: first, first + stride, ...; if `stride` is 0, the ranks that have the group in their statuses.
  std::uint32_t first = 0, stride = 1, size = 1;
  std::string name;
  std::uint32_t launch = 0;  // number of graph launches if a graph makes the calls, because each launch repeats them
  std::uint64_t begun = 0;   // number of calls that the rank has begun
  std::vector<Call> calls;   // oldest first
  bool operator==(const GroupStatus&) const = default;
};

struct RankStatus {
  std::uint64_t count = 0;  // changes when the rank makes progress
  Phase phase = Phase::none;
  std::int64_t step = 0;
  double slowest_step_s = 0;
  double still_s = 0;               // seconds since the count changed
  std::vector<GroupStatus> groups;  // empty while the rank makes progress
  bool operator==(const RankStatus&) const = default;
};

// How many calls of a group a rank status holds.
inline constexpr std::size_t kCallsInStatus = 8;

// Makes rank statuses from the activity of this process. Only one thread may use it.
class StatusReader {
 public:
  // `seconds`: the time since the last call. `paused`: the process did not run meanwhile, so the time is not counted.
  RankStatus read(double seconds, bool paused);

 private:
  std::uint64_t count_ = 0, device_ = 0;
  double still_s_ = 0;
};

// Returns the status of a process that is about to end. Other ranks may still be in a call of a group that was
// destroyed here. So it includes destroyed groups. It has the numbers of calls, but not the calls themselves.
RankStatus last_status();

std::string encode(const RankStatus& status);
// Returns nullopt if the bytes are not a valid rank status.
std::optional<RankStatus> decode(std::string_view bytes);

}  // namespace lt::watchdog
