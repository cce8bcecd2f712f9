// Compares the losses of runs. Invariant: losses are equal if their bits (loss_hex) are equal. If a run records no
// bits, the printed numbers are compared instead, and the report says so.
#pragma once

#include "report/document.h"
#include "report/groups.h"

namespace lt::report {

// How well the losses of two runs, a and b, agree.
struct Agreement {
  std::size_t common = 0;                       // steps that both runs have
  double first = kMissing;                      // first of these steps with different losses; kMissing: none
  double loss_a = kMissing, loss_b = kMissing;  // at that step
  bool by_bits = true;                          // both runs record loss_hex at all these steps
  bool any_not_finite = false;                  // at one of these steps, both losses are not finite
  bool same_tokens = true;                      // no step is known to have different numbers of tokens in the runs
  // Over the last `last` common steps, of which `window` have finite losses: the mean of b - a, and two standard errors
  // of this mean. kMissing if `window` would be below 10.
  std::size_t last = 0, window = 0;
  double difference = kMissing, noise = kMissing;
};
Agreement agreement_of(const RunData& a, const RunData& b);

// True if the middle halves (first to third quartile) of the tokens per second of the two runs' steady steps overlap.
bool same_speed_within_noise(const RunData& a, const RunData& b);

// For each run of a group except the first, adds a sentence: an earlier run with equal losses, or the first step at
// which the losses differ.
void add_agreement(Document& document, const std::vector<RunGroup>& groups);

}  // namespace lt::report
