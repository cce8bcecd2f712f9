// Causal attention in several ways that give the same numbers: what the library's own kernels are held against.
#pragma once

#include <memory>

#include "kernels/attention.h"
#include "libtrain/tensor/tensor.h"

namespace lt::bench {

struct AttentionInputs {
  kernels::AttentionShape shape;
  double scale;
  Tensor qkv, dout;  // packed rows [B, T, shape.row()]; [B, T, H*D]

  Size rows() const { return shape.B * shape.T; }
  Size matrix() const { return shape.B * shape.H * shape.T * shape.T; }  // elements of all T x T matrices
};

class AttentionMethod {
 public:
  explicit AttentionMethod(const AttentionInputs& inputs);
  virtual ~AttentionMethod() = default;

  virtual void forward() = 0;   // writes out
  virtual void backward() = 0;  // after forward(); writes dqkv

  const Tensor& out() const { return out_; }    // [B, T, H*D]
  const Tensor& dqkv() const { return dqkv_; }  // as qkv

 protected:
  AttentionInputs in_;
  Tensor out_, dqkv_;
};

// Plain loops over the formula, which keep the probabilities and their gradients as T x T matrices. On the threads and
// instructions of the other two, so that what differs is the method. On the CPU.
std::unique_ptr<AttentionMethod> naive_attention(const AttentionInputs& inputs);
// The own kernel: blocks with a running softmax, no T x T matrix.
std::unique_ptr<AttentionMethod> tiled_attention(const AttentionInputs& inputs);
// That of cuDNN, on CUDA.
std::unique_ptr<AttentionMethod> cudnn_attention(const AttentionInputs& inputs);
// Products of whole matrices with a softmax between them, as a program without an attention kernel composes it.
std::unique_ptr<AttentionMethod> library_attention(const AttentionInputs& inputs);

// max |x - reference| / (1 + |reference|); infinite where x is not finite.
double error_of(const Tensor& x, const Tensor& reference);

}  // namespace lt::bench
