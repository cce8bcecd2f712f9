// Attention of one new token of each sequence, for the head sizes whose channels are a whole number of 16-byte loads.
#pragma once

#include "kernels/attention.h"

namespace lt::kernels::decode {

// Returns false, and does nothing, for other calls. Without `clusters`, as on devices that lack them, the bits are the
// same.
bool attention(CudaStream stream, const AttentionCached& call, bool clusters = true);

}  // namespace lt::kernels::decode
