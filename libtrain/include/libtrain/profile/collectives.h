// Records of collectives. Groups write them and recorders read them; neither knows the other.
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
  exchange,  // of small host data, including splits of groups: in logs, not in totals
};
std::string_view to_string(CollectiveOp op);

// One collective in the log of a group.
struct CollectiveRecord {
  CollectiveOp op;
  std::string name;        // the transfer: "blocks.3 gather"
  std::uint64_t sequence;  // from 0, per group
  Size bytes;              // sent by this rank
  Size whole = 0;          // bytes of the whole tensor on the wire, the same on all ranks
  bool ended = false;      // on a GPU: the device has reached its end
  double age_s = 0;        // seconds from its begin to the reading of the log
};

// Totals for one kind of collective. Times are 0 on meta.
struct CommTotal {
  CollectiveOp op;
  Size bytes = 0;  // sent by this rank
  Size calls = 0;
  double busy_ms = 0;     // from start to end; overlapping ones each count in full
  double exposed_ms = 0;  // that the compute stream waited for it
};

// The times at which a collective began and ended, and at which the compute stream began to wait for it.
struct CollectiveTimes {
  CollectiveOp op;
  TimePoint begin, end, awaited;

  // Milliseconds that the compute stream waited for it. Waits until the device has reached its end.
  double exposed_ms() const;
};

// The collectives of all groups of the process during some time.
struct CommLap {
  // Collectives that launches of a CUDA graph repeated. Launches share their time points, which hold the times of the
  // last one.
  struct Launches {
    std::shared_ptr<const CommLap> lap;
    Size count = 0;
  };

  std::vector<CommTotal> counts;       // one per kind that occurred, with the times added up so far
  std::vector<CollectiveTimes> times;  // of collectives not added up yet
  std::vector<Launches> launches;      // their bytes and calls are in `counts`

  // Waits until the device has reached the end of all of them.
  std::vector<CommTotal> totals() const;
};

}  // namespace lt
