// What bounds a run and what would make it faster, each with the numbers that say so. Invariant: nothing is advised
// that the run's own record does not support, so a run with an even, well hidden step gets little advice.
#pragma once

#include <string>
#include <vector>

#include "report/data.h"

namespace lt::report {

// What a step's time goes to, as something that can be changed. Milliseconds a step, mean over ranks and steady steps;
// they add up to step_ms.
struct Costs {
  double step_ms = 0;
  double data = 0, forward = 0, backward = 0, recompute = 0, optimizer = 0, checkpoint = 0, other = 0;
  // Waiting that no computation hides: for the slowest rank (what it is longer busy itself than the mean), and the
  // rest, which is the transfer.
  double straggler = 0, gather = 0, reduce = 0;

  double compute() const { return forward + backward + recompute; }
  double communication() const { return gather + reduce; }
};
Costs costs_of(const RunData& run);  // all zero where there is no breakdown

// Memory of a rank: its share of the host's, and what neither the library nor the rest of the process uses of it.
// kMissing where env.json does not say, and on a GPU, whose memory it does not name.
struct Headroom {
  double limit_bytes = kMissing, used_bytes = kMissing, free_bytes = kMissing;
  double free_share() const { return free_bytes / limit_bytes; }
};
Headroom headroom_of(const RunData& run);

// "Forward", then the evidence and what would help.
struct Finding {
  std::string kind;  // data, gather, reduce, straggler, recompute, processors, optimizer, checkpoint, outside,
                     // restarts, compute
  double cost = 0;   // share of the step's time
  std::string headline, text;
};

// The largest cost in words with its numbers, and what comes next.
std::string verdict(const RunData& run);
// Most costly first.
std::vector<Finding> findings(const RunData& run);

}  // namespace lt::report
