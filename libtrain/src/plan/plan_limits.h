// The limits of plans. Bytes are counted in 63 bits, and far below these limits no machine has the memory.
#pragma once

#include "libtrain/nn/models.h"

namespace lt::planner {

// The tokens that are in memory at a time, and the names of the two factors.
struct PlannedTokens {
  Size samples, seq;
  const char *samples_key, *seq_key;
};

// Throws UsageError for a model, or a number of tokens in a transformer, whose bytes might exceed 63 bits.
void require_plannable(const nn::Model& model, const PlannedTokens& tokens);

}  // namespace lt::planner
