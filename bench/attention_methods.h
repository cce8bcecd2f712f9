// Several implementations of causal attention that compute the same numbers, for comparison with the library's kernels.
#pragma once

#include <memory>

#include "kernels/attention.h"
#include "libtrain/tensor/tensor.h"

namespace lt::bench {

struct AttentionInputs {
  kernels::AttentionShape shape;
  double scale;
  Tensor qkv, dout;  // packed rows [B, T, shape.row()]; [B, T, H*D]
  // Like Batch::document_starts. Only the library's own kernel and cuDNN's support it.
  Tensor document_starts = {};

  Size rows() const { return shape.B * shape.T; }
  Size matrix() const { return shape.B * shape.H * shape.T * shape.T; }  // elements of all T x T matrices
};

class AttentionMethod {
 public:
  explicit AttentionMethod(const AttentionInputs& inputs);
  virtual ~AttentionMethod() = default;

  virtual void forward() = 0;   // writes out()
  virtual void backward() = 0;  // call it after forward(); writes dqkv()

  const Tensor& out() const { return out_; }    // [B, T, H*D]
  const Tensor& dqkv() const { return dqkv_; }  // shape as qkv

 protected:
  AttentionInputs in_;
  Tensor out_, dqkv_;
};

// Plain loops over the formula. Keeps the probabilities and their gradients as T x T matrices. CPU only. Uses the same
// threads and instructions as the other methods on the CPU, so that only the method differs.
std::unique_ptr<AttentionMethod> naive_attention(const AttentionInputs& inputs);
// The library's own kernel: blocks with a running softmax, no T x T matrix.
std::unique_ptr<AttentionMethod> tiled_attention(const AttentionInputs& inputs);
// cuDNN's kernel, on CUDA.
std::unique_ptr<AttentionMethod> cudnn_attention(const AttentionInputs& inputs);
// The kernel that a training step uses on CUDA.
std::unique_ptr<AttentionMethod> automatic_attention(const AttentionInputs& inputs);
// Matmuls of whole matrices with a softmax between them, as a program without an attention kernel composes attention.
std::unique_ptr<AttentionMethod> library_attention(const AttentionInputs& inputs);

// max |x - reference| / (1 + |reference|); infinite if x is not finite.
double error_of(const Tensor& x, const Tensor& reference);

}  // namespace lt::bench
