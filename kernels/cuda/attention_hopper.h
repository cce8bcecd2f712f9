// Attention's backward on the tensor cores of compute capability 9.0, for the shapes of may_run_on_hopper().
#pragma once

#include "kernels/attention.h"

namespace lt::kernels::hopper {

// Returns whether the device can run the call, whose pointers must be multiples of 16; if so, it is enqueued. The bits
// depend on the inputs of a sequence alone, so `call.deterministic` changes nothing. The workspace has
// hopper_workspace() bytes.
bool attention_backward(CudaStream stream, const AttentionBackward& call);

}  // namespace lt::kernels::hopper
