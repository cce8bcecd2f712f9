// What is recorded of collectives: written by groups, read by recorders, which do not know each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt {

enum class CollectiveOp : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  broadcast,
  barrier,
  exchange,  // of small host data, splits of groups included: in logs, not in totals
};
std::string_view to_string(CollectiveOp op);

// One collective as the log keeps it.
struct CollectiveRecord {
  CollectiveOp op;
  std::string name;        // what is moved: "blocks.3 gather"
  std::uint64_t sequence;  // from 0, per group
  Size bytes;              // that this rank sends
  Size whole = 0;          // bytes of the whole tensor as they travel, the same on all ranks
  bool ended = false;      // on a GPU: the device has come to its end
  double age_s = 0;        // since it began, when the log was read
};

// Totals of one kind of collective. Times are 0 on meta.
struct CommTotal {
  CollectiveOp op;
  Size bytes = 0;  // that this rank sent
  Size calls = 0;
  double busy_ms = 0;     // from its start to its end; overlapping ones each count in full
  double exposed_ms = 0;  // that the stream which computes waited for it
};

// When a collective began and ended, and when the stream that computes came to wait for it.
struct CollectiveTimes {
  CollectiveOp op;
  TimePoint begin, end, awaited;

  // That the stream which computes waited for it; waits until the device has come to its end.
  double exposed_ms() const;
};

// The collectives of some time, of all groups of the process.
struct CommLap {
  // What launches of a CUDA graph did again. Launches share their time points, whose times are those of the last one.
  struct Launches {
    std::shared_ptr<const CommLap> lap;
    Size count = 0;
  };

  std::vector<CommTotal> counts;       // one for each kind that occurred, with the times that were added up already
  std::vector<CollectiveTimes> times;  // of the others
  std::vector<Launches> launches;      // whose bytes and calls are in `counts`

  // Waits until the device has come to the end of all of them.
  std::vector<CommTotal> totals() const;
};

}  // namespace lt
