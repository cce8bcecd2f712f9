// Replaces attention_cudnn.cpp in a CUDA build without cuDNN: all attention runs on libtrain's kernels.
#include "kernels/cuda/attention_cudnn.h"

namespace lt::kernels::cudnn {
namespace {

const std::string& refusal() {
  static const std::string text = "this build is without cuDNN";
  return text;
}

}  // namespace

const std::string& attention_forward(CudaStream, const AttentionForward&) { return refusal(); }
const std::string& attention_backward(CudaStream, const AttentionBackward&) { return refusal(); }

Size backward_workspace(CudaStream, DType, const AttentionShape&, double, bool, bool) { return -1; }

}  // namespace lt::kernels::cudnn
