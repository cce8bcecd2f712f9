// The limits of plans: byte counts must fit in 63 bits. No machine has memory near this limit.
#pragma once

#include "libtrain/nn/models.h"

namespace lt::planner {

// The tokens in memory at a time, samples * seq, and the keys of the two factors.
struct PlannedTokens {
  Size samples, seq;
  const char *samples_key, *seq_key;
};

// Throws UsageError if the bytes of the model, or a transformer's bytes for these tokens, might exceed 63 bits.
void require_plannable(const nn::Model& model, const PlannedTokens& tokens);

}  // namespace lt::planner
