// What bounds a run, and changes that would make it faster, each with its numbers. Invariant: all advice rests on the
// run's own record, so a run with even, well overlapped steps gets little advice.
#pragma once

#include <string>
#include <vector>

#include "report/data.h"

namespace lt::report {

// The time of a step split by causes that can be changed, in milliseconds per step, averaged over ranks and steady
// steps. The causes add up to step_ms.
struct Costs {
  double step_ms = 0;
  double data = 0, forward = 0, backward = 0, recompute = 0, optimizer = 0, checkpoint = 0, other = 0;
  // Waits that no computation hides. straggler: for the slowest rank (its own time minus the mean). gather and reduce:
  // the rest, which is the transfer.
  double straggler = 0, gather = 0, reduce = 0;

  double compute() const { return forward + backward + recompute; }
  double communication() const { return gather + reduce; }
};
Costs costs_of(const RunData& run);  // all zero without a breakdown

// A rank's memory: its share of the host's, the part that its process uses, and the rest, which is free. kMissing if
// env.json lacks the host's memory, and on a GPU, whose memory env.json does not record.
struct Headroom {
  double limit_bytes = kMissing, used_bytes = kMissing, free_bytes = kMissing;
  double free_share() const { return free_bytes / limit_bytes; }
};
Headroom headroom_of(const RunData& run);

// A headline such as "Waiting for data", and a text with the evidence and the remedy.
struct Finding {
  std::string kind;  // data, gather, reduce, straggler, recompute, processors, optimizer, checkpoint, outside,
                     // restarts, micro_batch, compute
  double cost = 0;   // share of the step's time; for outside and restarts, of the run's
  std::string headline, text;
};

// Returns a sentence on the largest cost with its numbers, and one on the other costs.
std::string verdict(const RunData& run);
// Returns the most costly finding first.
std::vector<Finding> findings(const RunData& run);

}  // namespace lt::report
