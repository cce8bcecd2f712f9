// How far the losses of runs agree. Invariant: equality is that of the bits (loss_hex), and a run without them is only
// said to be equal as far as its numbers are printed.
#pragma once

#include "report/document.h"
#include "report/groups.h"

namespace lt::report {

// The steps that two runs share, and what their losses have in common.
struct Agreement {
  std::size_t common = 0;                       // steps that both runs have
  double first = kMissing;                      // the first of these steps whose losses differ; kMissing: none does
  double loss_a = kMissing, loss_b = kMissing;  // at that step
  bool by_bits = true;                          // both runs record loss_hex at all these steps
  bool any_not_finite = false;                  // both losses of one of these steps are not finite
  bool same_tokens = true;                      // no step is known to have other numbers of tokens in the two runs
  // Over the `window` of the `last` common steps whose losses are finite: the mean of b - a, and two standard errors.
  std::size_t last = 0, window = 0;
  double difference = kMissing, noise = kMissing;
};
Agreement agreement_of(const RunData& a, const RunData& b);

// Whether the tokens per second of two runs overlap: the middle half of one's steps reaches into that of the other's.
bool same_speed_within_noise(const RunData& a, const RunData& b);

// Adds one sentence for each run of a group but the first: which earlier run it equals, or from where on it differs.
void add_agreement(Document& document, const std::vector<RunGroup>& groups);

}  // namespace lt::report
