// Finds what limits a run, and changes that would make it faster, each with its numbers. Invariant: all advice follows
// from the run's own record, so a run with even, well overlapped steps gets little advice.
#pragma once

#include <string>
#include <vector>

#include "report/data.h"

namespace lt::report {

// The time of a step, split into causes that can be changed: milliseconds per step, averaged over ranks and steady
// steps. The causes add up to step_ms.
struct Costs {
  double step_ms = 0;
  double data = 0, forward = 0, backward = 0, recompute = 0, optimizer = 0, checkpoint = 0, other = 0;
  // Waits that no computation hides. straggler: waits for the slowest rank (its own time minus the mean over ranks).
  // gather and reduce: the remaining waits, for the transfers themselves.
  double straggler = 0, gather = 0, reduce = 0;

  double compute() const { return forward + backward + recompute; }
  double communication() const { return gather + reduce; }
};
Costs costs_of(const RunData& run);  // all zero without a breakdown

// Host memory of a rank: its share of the host's memory, the bytes that its process uses, and the free rest. kMissing
// if env.json lacks the host's memory, and for runs on GPUs, because env.json does not record their memory.
struct Headroom {
  double limit_bytes = kMissing, used_bytes = kMissing, free_bytes = kMissing;
  double free_share() const { return free_bytes / limit_bytes; }
};
Headroom headroom_of(const RunData& run);

// A headline such as "Waiting for data", and a text with the evidence and the remedy.
struct Finding {
  std::string kind;  // data, gather, reduce, straggler, recompute, processors, optimizer, checkpoint, outside,
                     // restarts, micro_batch, compute
  double cost = 0;   // share of a step's time; for outside and restarts, share of the run's time
  std::string headline, text;

  std::string cost_text() const;  // "12% of a step"; empty if the cost is unknown
};

// Returns the largest cost of a step and its share: "computation (95%)"; empty without a breakdown.
std::string bottleneck(const RunData& run);
// Returns a sentence on the largest cost with its numbers, and one on the other costs.
std::string verdict(const RunData& run);
// Returns the findings, the most costly first.
std::vector<Finding> findings(const RunData& run);

}  // namespace lt::report
