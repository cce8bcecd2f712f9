// A board is a rank's report on itself. Boards are plain values, and the diagnosis is a function of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/device/phase.h"
#include "libtrain/profile/collectives.h"

namespace lt::watchdog {

// A collective on a board.
struct Call {
  std::uint64_t sequence = 0;
  CollectiveOp op = CollectiveOp::exchange;
  std::string name;
  std::uint64_t whole = 0;  // bytes of the whole tensor, the same on all ranks
  bool ended = false;
  bool operator==(const Call&) const = default;
};

// A group's newest calls on one rank.
struct GroupBoard {
  std::uint64_t id = 0;  // the same on its ranks
  // Its ranks: first, first + stride, ...; with a stride of 0, the ranks that have the group on their boards.
  std::uint32_t first = 0, stride = 1, size = 1;
  std::string name;
  std::uint32_t launch = 0;  // number of graph launches if a graph makes the calls, because each launch repeats them
  std::uint64_t begun = 0;   // calls that the rank has reached
  std::vector<Call> calls;   // oldest first
  bool operator==(const GroupBoard&) const = default;
};

struct Board {
  std::uint64_t count = 0;  // changes with progress
  Phase phase = Phase::none;
  std::int64_t step = 0;
  double slowest_step_s = 0;
  double still_s = 0;              // seconds since the count changed
  std::vector<GroupBoard> groups;  // empty while the rank makes progress
  bool operator==(const Board&) const = default;
};

// How many calls of a group a board carries.
inline constexpr std::size_t kCallsOnBoard = 8;

// Makes boards from the activity of this process. Only one thread may use it.
class BoardReader {
 public:
  // `seconds` have passed since the last call. `paused`: the process did not run meanwhile, so they do not count.
  Board read(double seconds, bool paused);

 private:
  std::uint64_t count_ = 0, device_ = 0;
  double still_s_ = 0;
};

// The board of a process that is leaving. Other ranks may still be in a call of a group that has ended here. So it
// counts the calls of ended groups too, and has none of the calls themselves.
Board last_board();

std::string encode(const Board& board);
// Empty if the bytes are not a board.
std::optional<Board> decode(std::string_view bytes);

}  // namespace lt::watchdog
