// Attention through cuDNN in bf16 and f16, directly on packed rows. Each function returns an empty string once the work
// is enqueued. Otherwise it returns why cuDNN refuses the shape, and the caller must compute the whole output. Both
// strings live as long as the process. Graphs are built at the first call of a shape (host work of up to a second) and
// cached; later calls allocate nothing on the device and do not wait for it. Without cuDNN (no_cudnn.cpp) every shape
// is refused.
#pragma once

#include <string>

#include "kernels/attention.h"

namespace lt::kernels::cudnn {

// With documents, cuDNN computes the long ones, and libtrain's kernels the short ones.
const std::string& attention_forward(CudaStream stream, const AttentionForward& call);
// Throws InternalError if cuDNN asks for more than attention_backward_workspace().
const std::string& attention_backward(CudaStream stream, const AttentionBackward& call);

// Returns the bytes of workspace that cuDNN's backward needs; -1 if cuDNN refuses the shape.
Size backward_workspace(CudaStream stream, DType dtype, const AttentionShape& shape, double scale, bool deterministic,
                        bool documents = false);

}  // namespace lt::kernels::cudnn
