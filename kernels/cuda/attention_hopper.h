// Attention on the tensor cores of compute capability 9.0, for calls that may_run_forward_on_hopper() or
// may_run_backward_on_hopper(), on such a device.
#pragma once

#include "kernels/attention.h"

namespace lt::kernels::hopper {

// Each enqueues the call and returns true. Returns false, and does nothing, if a pointer is not aligned to 16 bytes or,
// in the forward, if the scale is not above 0. The bits depend on the inputs of a sequence alone, so the backward
// ignores `deterministic`. Its workspace has hopper_workspace() bytes.
bool attention_forward(CudaStream stream, const AttentionForward& call);
bool attention_backward(CudaStream stream, const AttentionBackward& call);

}  // namespace lt::kernels::hopper
