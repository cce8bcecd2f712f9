// Attention through cuDNN, bf16 and f16, on packed rows as they are. Each returns why cuDNN does not take the shape,
// having done nothing, or nothing where the work is queued; both strings live as long as the process. Graphs are built
// at the first call of a shape (host work of up to a second) and kept; later calls allocate nothing on the device and
// do not wait for it. Without cuDNN (no_cudnn.cpp) every shape is refused.
#pragma once

#include <string>

#include "kernels/attention.h"

namespace lt::kernels::cudnn {

const std::string& attention_forward(CudaStream stream, const AttentionForward& call);
// Throws InternalError where attention_backward_workspace() is less than what cuDNN asks.
const std::string& attention_backward(CudaStream stream, const AttentionBackward& call);

// Bytes that cuDNN asks for the backward; -1 where it refuses. For tests of attention_backward_workspace().
Size backward_workspace(CudaStream stream, DType dtype, const AttentionShape& shape, double scale, bool deterministic);

}  // namespace lt::kernels::cudnn
