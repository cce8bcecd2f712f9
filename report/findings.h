// What bounds a run and what would make it faster, each with its numbers. Invariant: all advice rests on the run's own
// record, so a run with even, well overlapped steps gets little advice.
#pragma once

#include <string>
#include <vector>

#include "report/data.h"

namespace lt::report {

// The time of a step by changeable causes, in milliseconds per step, mean over ranks and steady steps. They add up to
// step_ms.
struct Costs {
  double step_ms = 0;
  double data = 0, forward = 0, backward = 0, recompute = 0, optimizer = 0, checkpoint = 0, other = 0;
  // Waits that no computation hides: for the slowest rank (its own time above the mean), and the rest, which is the
  // transfer.
  double straggler = 0, gather = 0, reduce = 0;

  double compute() const { return forward + backward + recompute; }
  double communication() const { return gather + reduce; }
};
Costs costs_of(const RunData& run);  // all zero without a breakdown

// A rank's memory: its share of the host's, and the part that neither the library nor the rest of the process uses.
// kMissing if env.json does not say, and on a GPU, whose memory it does not record.
struct Headroom {
  double limit_bytes = kMissing, used_bytes = kMissing, free_bytes = kMissing;
  double free_share() const { return free_bytes / limit_bytes; }
};
Headroom headroom_of(const RunData& run);

// "Forward", then the evidence and the remedy.
struct Finding {
  std::string kind;  // data, gather, reduce, straggler, recompute, processors, optimizer, checkpoint, outside,
                     // restarts, compute
  double cost = 0;   // share of the step's time
  std::string headline, text;
};

// The largest cost in words with its numbers, then the next one.
std::string verdict(const RunData& run);
// The most costly first.
std::vector<Finding> findings(const RunData& run);

}  // namespace lt::report
