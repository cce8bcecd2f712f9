// Differentiable operations. Tensors are contiguous and on one device. The floating-point inputs of a call share a
// dtype (f32, f64, bf16 or f16). Every operation checks its arguments and throws UsageError that
// names operation, argument, expected and actual. On the meta device only shapes are computed.
// Ids outside [0, V), and targets that are neither in it nor kIgnoredTarget, throw UsageError: on the CPU in the call.
// On GPUs the kernels skip them, and the error, with the first position, comes when values of that device are next read
// on the host: Tensor::item(), to_vector(), copy() to the CPU, or the result of an engine's step. Until then results
// that depend on such an id mean nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/kernels/ignored_target.h"
#include "libtrain/kernels/rope_scaling.h"
#include "libtrain/tensor/autograd.h"
#include "libtrain/tensor/tensor.h"

namespace lt::ops {
struct LossPass;
}

namespace lt {
namespace LT_API ops {

// --- The general set: enough to build another model. ---

// Elementwise with broadcasting (trailing dimensions aligned, sizes equal or 1). Gradients of broadcast inputs are
// summed in f32 (f64 for f64), whatever the dtype.
Tensor add(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
// Elementwise maximum. Equal elements get half of the gradient each. NaN if either is.
Tensor maximum(const Tensor& a, const Tensor& b);
// Selects a if condition (i32) is nonzero, else b. All three broadcast; the condition has no gradient.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor scale(const Tensor& x, double alpha);
// x in another floating dtype, rounded to nearest even where that is narrower. So is its gradient on the way back.
Tensor cast(const Tensor& x, DType dtype);

// Elementwise functions of x, any shape.
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);  // natural
Tensor sqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor relu(const Tensor& x);  // its derivative at 0 is 0
Tensor sigmoid(const Tensor& x);

// Multiplies a [..., M, K] by b [K, N], or each item of a batch by its own: b [..., K, N] with the same leading sizes.
Tensor matmul(const Tensor& a, const Tensor& b);

Tensor reshape(const Tensor& x, const Shape& shape);
Tensor transpose(const Tensor& x, int dim0, int dim1);
// Elements [begin, begin + length) of dimension `dim`.
Tensor slice(const Tensor& x, int dim, Size begin, Size length);
// Concatenates tensors along `dim`. All other sizes are equal. At least one tensor.
Tensor concat(const std::vector<Tensor>& tensors, int dim);
// Splits x along `dim` into slices of these sizes, whose sum is x.dim(dim). Each is a copy.
std::vector<Tensor> split(const Tensor& x, const std::vector<Size>& sizes, int dim);
// Picks elements of x along `dim` by index. `index` (i32) and y have the shape of x except in `dim`. For dim 0 of two:
// y[k, i] = x[index[k, i], i]. Indices must be in range; otherwise the behaviour is undefined.
Tensor gather(const Tensor& x, int dim, const Tensor& index);
// Inclusive cumulative sum along `dim`, y[r] = x[0] + ... + x[r], in f32 (f64 for f64). The same shape.
Tensor cumulative_sum(const Tensor& x, int dim);

// The sum or mean over `dim`, which is removed; without `dim` over all elements, a scalar. Sums run in f32 (f64 for
// f64) whatever the dtype, and are rounded once.
Tensor sum(const Tensor& x, int dim);
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x, int dim);
Tensor mean(const Tensor& x);

// Over the last dimension.
Tensor softmax(const Tensor& x);
// GELU in its tanh form (Hendrycks & Gimpel 2016); SiLU.
Tensor gelu(const Tensor& x);
Tensor silu(const Tensor& x);

// Over the last dimension, of size C. weight [C], bias [C] (may be undefined). The arguments must be different tensors.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps = 1e-5f);
Tensor rms_norm(const Tensor& x, const Tensor& weight, float eps = 1e-5f);

// Looks up rows of table [V, C] by ids (i32, any shape) -> [ids..., C]. Ids must be in [0, V).
Tensor embedding(const Tensor& table, const Tensor& ids);

// How a loss over targets is formed.
struct LossOptions {
  // False: no target may be kIgnoredTarget, which saves counting them.
  bool may_ignore = true;
  // [1], f32, on the device of the logits: multiplies the mean over all targets, in which ignored ones count as 0. For
  // means over more targets than those of one call. Undefined: targets / counted targets of this call.
  Tensor weight = {};
  // Added to the loss: z_loss * log(sum of exp(logits))^2 of each counted row (Chowdhery et al. 2022, section 5).
  double z_loss = 0;
  // In [0, 1]: the share of the target distribution that is uniform over V (Szegedy et al. 2016, section 7).
  double label_smoothing = 0;
  // Set by an engine for the losses of a model: copy it with the other options. Otherwise null.
  LossPass* pass = nullptr;
};

// Mean over the counted targets of -log softmax(logits [..., V])[target]; targets i32 [...]. Returns an f32 scalar (f64
// for f64); 0 if no target counts. A target of kIgnoredTarget is not counted. All others must be in [0, V).
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const LossOptions& options = {});

// Inverted dropout. Keeps element i if the uniform number (key, first + i) is >= p, so the mask does not depend on
// ranks. p = 0 is the identity.
Tensor dropout(const Tensor& x, float p, std::uint64_t key, std::uint64_t first = 0);

// --- The fused set, used by the transformers. ---

// x [..., K] weight[N, K]^T + bias [N] + residual [..., N]. bias and residual may be undefined. The residual's gradient
// is passed on without a copy.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Tensor& residual = {});

// Rows [begin, begin + size) of a matrix.
struct RowRange {
  Size begin, size;
};
// Low-rank adapters of some ranges of a weight's rows, in ascending order (Hu et al. 2021).
struct LowRank {
  double scale = 1;
  std::vector<RowRange> ranges;
};

// linear(), plus scale (x A_i^T) B_i^T on the columns of y that are range i of the weight's rows. a [ranges * rank, K]
// holds all A_i [rank, K] one below the other, b [adapted rows, rank] all B_i [range, rank].
Tensor adapted_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                      const Tensor& a, const Tensor& b, const LowRank& adapter);

// gelu(x [..., K] up[F, K]^T + up_bias [F]) down[N, F]^T + down_bias [N] + residual [..., N]. Biases and residual may
// be undefined. GELU and its gradient are fused into the matmuls if that is faster.
Tensor gelu_ffn(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down, const Tensor& down_bias,
                const Tensor& residual = {});

// silu(x[..., :F]) * x[..., F:] for x [..., 2F] (Shazeer 2020).
Tensor swiglu(const Tensor& x);

// linear(rms_norm(x, norm_weight, eps), weight, bias), and swiglu(linear(rms_norm(x, norm_weight, eps), gate_up)).
// With KernelSettings::constant_weights, on CUDA and without a tape, one kernel does it for up to eight rows, and
// rounds only its result.
Tensor rms_norm_linear(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& weight,
                       const Tensor& bias = {});
Tensor rms_norm_swiglu(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& gate_up);

// In the operations below, `document_starts` (i32 [B, T], may be undefined) is Batch::document_starts: the position in
// its row where each token's document begins. Starts rise along a row, and none is larger than its token's place;
// otherwise the behaviour is undefined. Then positions count from there, t - start, `first` must be 0, and attention
// sees only the token's own document. The values are those of each document alone, up to the order of sums.

// A packed row is [query heads | key heads | value heads] of head_dim channels each: (heads + 2 kv_heads) * head_dim.
struct Heads {
  Size heads, kv_heads, head_dim;
  Size row() const { return (heads + 2 * kv_heads) * head_dim; }
};

// Rotary embedding of the queries and keys of qkv [B, T, row]; token t has position first + t (Su et al. 2021). A
// temporary without other owners is rotated in place.
Tensor rope(Tensor qkv, const Heads& heads, double base, Size first = 0, const RopeScaling& scaling = {},
            const Tensor& document_starts = {});

// RMSNorm of each query head by q_weight [head_dim] and each key head by k_weight [head_dim], another tensor, in
// qkv [B, T, row] (Henry et al. 2020).
Tensor qk_norm(const Tensor& qkv, const Heads& heads, const Tensor& q_weight, const Tensor& k_weight,
               float eps = 1e-5f);

// Causal softmax attention with scale 1/sqrt(head_dim) on qkv [B, T, row] -> [B, T, heads * head_dim]. Blockwise: there
// is never a T x T matrix (Dao et al. 2022). Grouped key/value heads (Ainslie et al. 2023). With a window, position i
// sees only positions i - window + 1 to i (Beltagy et al. 2020); 0: all up to i.
Tensor attention(const Tensor& qkv, const Heads& heads, Size window = 0, const Tensor& document_starts = {});

// The number of query-key pairs that the causal mask and the window leave in T tokens, with the diagonal counted half:
// T^2 / 2 without a window. For FLOPs.
inline double visible_pairs(Size T, Size window) {
  const Size w = window > 0 && window < T ? window : T;
  return static_cast<double>(w) * (static_cast<double>(T) - static_cast<double>(w) / 2);
}

// Keys and values of past tokens, for generation.
struct KvCache {
  Tensor k, v;      // [B, capacity, kv_heads * head_dim]
  Size length = 0;  // tokens held, or the most of them; advanced by the caller after all layers ran
  Tensor lengths;   // i32 [B], for calls with one token: the tokens held by each sequence; undefined: `length`
};
// Like attention() after rope() (`rope_base` 0: without it), for T new tokens after those of the cache; appends their
// keys and values. Positions of `lengths` are not checked. Records no gradient.
Tensor attention_cached(Tensor qkv, const Heads& heads, KvCache& cache, Size window = 0, double rope_base = 0,
                        const RopeScaling& scaling = {});

// wte[ids] + wpe[first + t] for ids [B, T] -> [B, T, C]. Ids as in embedding(). Positions are checked. wte and wpe must
// be different tensors.
Tensor embedding_with_positions(const Tensor& wte, const Tensor& wpe, const Tensor& ids, Size first = 0,
                                const Tensor& document_starts = {});

// cross_entropy() of logits = x [..., C] weight[V, C]^T, in chunks of rows, so all logits never exist at once.
// In a step of an engine the forward pass computes the gradients chunk by chunk while the logits exist; elsewhere the
// backward pass computes the logits again. x and weight must be different tensors.
Tensor head_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                          const LossOptions& options = {});

}  // namespace ops
}  // namespace lt
