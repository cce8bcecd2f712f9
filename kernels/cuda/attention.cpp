// Attention on CUDA: selects cuDNN or libtrain's kernels by the call's path, its shape and the device.
#include "kernels/attention.h"

#include <string>

#include "device/cuda.h"
#include "kernels/attention_options.h"
#include "kernels/cuda/attention_cudnn.h"
#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/attention_own.h"
#include "libtrain/device/context.h"
#include "libtrain/error.h"

namespace lt::kernels {
namespace {

// Returns whether cuDNN ran the call. `attempt` returns cuDNN's refusal, empty if it ran.
template <class Call>
bool on_cudnn(CudaStream stream, const Call& call, const std::string& (*attempt)(CudaStream, const Call&)) {
  static const std::string not_asked = "expected bf16 or f16 and a head size that is a multiple of 8 up to 256";
  static const std::string no_long_documents =
      "expected, with documents, bf16 or f16, a head size that is a multiple of 16 up to 256, and sequences of at "
      "least " +
      std::to_string(kLongDocument) + " tokens";
  if (call.path == AttentionPath::own) return false;
  const bool documents = call.starts_BT != nullptr;
  const bool may_run =
      documents ? may_run_documents_on_cudnn(call.dtype, call.shape) : may_run_on_cudnn(call.dtype, call.shape);
  const std::string& refusal = may_run ? attempt(stream, call) : documents ? no_long_documents : not_asked;
  if (refusal.empty()) return true;
  if (call.path == AttentionPath::cudnn) throw InternalError("attention", "cuDNN: " + refusal);
  // No notice for other types: cuDNN would give them no tensor cores.
  if (dtype_bytes(call.dtype) == 2 && Context::current().notices != nullptr) {
    Context::current().give_notice("attention in " + std::string(dtype_name(call.dtype)) + " with heads of " +
                                   std::to_string(call.shape.D) +
                                   " channels runs on libtrain's kernels, which are slower, since cuDNN: " + refusal);
  }
  return false;
}

// Returns whether the kernels for compute capability 9.0 ran the call. `may_run` decides by its shape; `attempt`
// returns whether its pointers and scale suit.
template <class Call>
bool on_hopper(CudaStream stream, const Call& call, bool (*may_run)(DType, const AttentionShape&, bool),
               bool (*attempt)(CudaStream, const Call&)) {
  return call.path == AttentionPath::automatic && may_run(call.dtype, call.shape, call.starts_BT != nullptr) &&
         device::cuda::compute_capability(stream.device) == 90 && attempt(stream, call);
}

bool is_empty(const AttentionShape& s) { return s.B == 0 || s.T == 0 || s.H == 0 || s.D == 0; }

}  // namespace

template <>
void attention_forward(CudaStream stream, const AttentionForward& call) {
  if (is_empty(call.shape)) return;
  if (on_hopper(stream, call, &may_run_forward_on_hopper, &hopper::attention_forward)) return;
  if (!on_cudnn(stream, call, &cudnn::attention_forward)) own::attention_forward(stream, call);
}

template <>
void attention_backward(CudaStream stream, const AttentionBackward& call) {
  if (is_empty(call.shape)) return;
  // The kernel for 128 channels has not been timed yet, so it runs only where bits must repeat.
  const bool is_own = call.shape.D == 64 || call.deterministic;
  if (is_own && on_hopper(stream, call, &may_run_backward_on_hopper, &hopper::attention_backward)) return;
  if (!on_cudnn(stream, call, &cudnn::attention_backward)) own::attention_backward(stream, call);
}

}  // namespace lt::kernels
