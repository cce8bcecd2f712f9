// Records of collectives. Groups write them and recorders read them, without depending on each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace LT_API lt {

enum class CollectiveOp : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  broadcast,
  barrier,
  exchange,  // of small host data, or a split of a group; in logs, not in totals
};
std::string_view to_string(CollectiveOp op);

// One collective in the log of a group.
struct CollectiveRecord {
  CollectiveOp op;
  std::string name;        // of the transfer, such as "blocks.3 gather"
  std::uint64_t sequence;  // number of the call in its group, from 0
  Size bytes;              // sent by this rank
  Size whole = 0;          // bytes of the complete tensor in transit; the same on all ranks
  bool ended = false;      // on a GPU: the device has finished the collective
  double age_s = 0;        // seconds from its begin to the reading of the log
};

// Totals of one kind of collective. Times are 0 on meta.
struct CommTotal {
  CollectiveOp op;
  Size bytes = 0;  // sent by this rank
  Size calls = 0;
  double busy_ms = 0;     // milliseconds from begin to end; overlapping collectives each add their full time
  double exposed_ms = 0;  // milliseconds that the compute stream waited for them
};

// When a collective began and ended, and when the compute stream began to wait for it.
struct CollectiveTimes {
  CollectiveOp op;
  TimePoint begin, end, awaited;

  // Milliseconds that the compute stream waited for it. Blocks until the collective has ended on the device.
  double exposed_ms() const;
};

// The collectives of all groups of the process between two calls of take_comm_lap().
struct CommLap {
  // Launches of a CUDA graph, which repeat the collectives of its capture. They share the time points in `lap`, so
  // these hold the times of the last launch.
  struct Launches {
    std::shared_ptr<const CommLap> lap;
    Size count = 0;
  };

  std::vector<CommTotal> counts;       // one for each kind that occurred; has the times added up so far
  std::vector<CollectiveTimes> times;  // of collectives that are not added up yet
  std::vector<Launches> launches;      // their bytes and calls are in `counts`

  // One entry for each kind. Blocks until all these collectives have ended on the device.
  std::vector<CommTotal> totals() const;
};

}  // namespace lt
