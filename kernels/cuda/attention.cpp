// Attention on CUDA: cuDNN or the own kernels, as attention_options.h says.
#include "kernels/attention.h"

#include "kernels/attention_options.h"
#include "kernels/cuda/attention_cudnn.h"
#include "kernels/cuda/attention_own.h"
#include "libtrain/error.h"

namespace lt::kernels {
namespace {

// Whether cuDNN did it. `attempt` returns cuDNN's refusal.
template <class Attempt>
bool on_cudnn(DType dtype, const AttentionShape& shape, Attempt&& attempt) {
  static const std::string not_asked = "expected bf16 or f16 and a head size that is a multiple of 8 up to 256";
  const AttentionPath path = attention_path();
  if (path == AttentionPath::own) return false;
  const std::string& refusal = may_run_on_cudnn(dtype, shape) ? attempt() : not_asked;
  if (path == AttentionPath::cudnn && !refusal.empty()) throw InternalError("attention", "cuDNN: " + refusal);
  return refusal.empty();
}

bool is_empty(const AttentionShape& s) { return s.B == 0 || s.T == 0 || s.H == 0 || s.D == 0; }

}  // namespace

template <>
void attention_forward(CudaStream stream, DType dtype, void* out_BTHD, void* lse_BHT, const void* qkv,
                       const AttentionShape& shape, double scale) {
  if (is_empty(shape)) return;
  const auto attempt = [&]() -> const std::string& {
    return cudnn::attention_forward(stream, dtype, out_BTHD, lse_BHT, qkv, shape, scale);
  };
  if (!on_cudnn(dtype, shape, attempt)) {
    own::attention_forward(stream, dtype, out_BTHD, lse_BHT, qkv, shape, scale);
  }
}

template <>
void attention_backward(CudaStream stream, DType dtype, void* dqkv, const void* dout_BTHD, const void* qkv,
                        const void* out_BTHD, const void* lse_BHT, void* workspace, const AttentionShape& shape,
                        double scale) {
  if (is_empty(shape)) return;
  const auto attempt = [&]() -> const std::string& {
    return cudnn::attention_backward(stream, dtype, dqkv, dout_BTHD, qkv, out_BTHD, lse_BHT, workspace, shape, scale);
  };
  if (!on_cudnn(dtype, shape, attempt)) {
    own::attention_backward(stream, dtype, dqkv, dout_BTHD, qkv, out_BTHD, lse_BHT, workspace, shape, scale);
  }
}

}  // namespace lt::kernels
