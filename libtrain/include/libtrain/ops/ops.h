// Differentiable operations. The tensors of a call must be contiguous and on one device. Its floating-point inputs must
// share a dtype (f32, f64, bf16 or f16), which the result has too unless stated otherwise. `dim` may be negative: -1 is
// the last dimension. Every operation throws UsageError, which names operation, argument, expected and actual, for
// arguments that break the rules below. On the meta device, operations compute only shapes.
// An id is bad if it is outside [0, V). A target may also be kIgnoredTarget. On the CPU, a call with a bad id throws
// UsageError. On a GPU, kernels skip bad ids. The UsageError, with the position of the first bad id, is thrown when the
// host next reads values of that device: by Tensor::item(), to_vector(), copy() to the CPU, or an engine's StepResult.
// Results that depend on a bad id are meaningless.
#pragma once

#include <cstdint>
#include <type_traits>
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

// --- General operations, from which other models can be built. ---

// Elementwise a + b, a - b, a * b and a / b; the operators + - * / at the end of this file call these. Inputs are
// broadcast: shapes are aligned at the last dimension, and sizes must be equal or 1. The gradient of a broadcast input
// is a sum, computed in f32 (f64 for f64).
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
// The same with a number instead of a tensor; scale() multiplies by a number. The number becomes f32 (f64 for f64), and
// the result is rounded once. No tensor is made of the number, so a step that uses these can run as a CUDA graph.
Tensor add(const Tensor& a, double b);
Tensor sub(const Tensor& a, double b);
Tensor sub(double a, const Tensor& b);
Tensor div(const Tensor& a, double b);
Tensor div(double a, const Tensor& b);
// Elementwise maximum, with broadcasting; NaN if either element is NaN. If the elements are equal, each receives half
// of the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
// Elementwise comparisons: i32 masks for where(), 1 where the relation holds and 0 elsewhere. They have no gradient. a
// and b are floating point or i32, of one dtype, and are broadcast. A number is rounded to the dtype of a; if that is
// i32, the number must be an integer in its range. As in IEEE 754, not_equal holds for NaN and the others do not. They
// have no operators, because a < b and a == b are expected to be a bool.
Tensor less(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, double b);
Tensor equal(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, double b);
// Selects elements of a where `condition` (i32) is nonzero, and of b elsewhere. All three are broadcast. `condition`
// has no gradient.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// alpha * x.
Tensor scale(const Tensor& x, double alpha);
// Converts x to another floating dtype, rounding to nearest, ties to even. Returns x itself if it has that dtype. The
// backward pass converts the gradient in the same way.
Tensor cast(const Tensor& x, DType dtype);

// Elementwise functions of x, which may have any shape.
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);  // natural logarithm
Tensor sqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor relu(const Tensor& x);  // its derivative at 0 is 0
Tensor sigmoid(const Tensor& x);
// x^exponent for a finite exponent; exactly x * x for 2. As in C's pow(), NaN for a negative x unless the exponent is
// an integer. The derivative of x^0 is 0.
Tensor pow(const Tensor& x, double exponent);

// Multiplies a [..., M, K] by b, and returns [..., M, N]. b is [K, N] for all batch items, or [..., K, N] with the same
// leading sizes as a, one matrix for each item.
Tensor matmul(const Tensor& a, const Tensor& b);

// Returns x with another shape of as many elements. The result shares the storage of x.
Tensor reshape(const Tensor& x, const Shape& shape);
// Swaps two dimensions. The result is a contiguous copy.
Tensor transpose(const Tensor& x, int dim0, int dim1);
// Returns a copy of elements [begin, begin + length) of dimension `dim`.
Tensor slice(const Tensor& x, int dim, Size begin, Size length);
// Concatenates at least one tensor along `dim`. All other sizes must be equal.
Tensor concat(const std::vector<Tensor>& tensors, int dim);
// Stacks at least one tensor of one shape along a new dimension `dim` of the result, in which -1 is the last.
Tensor stack(const std::vector<Tensor>& tensors, int dim);
// Splits x along `dim` into slices of these sizes, which must add up to x.dim(dim). Each slice is a copy.
std::vector<Tensor> split(const Tensor& x, const std::vector<Size>& sizes, int dim);
// Picks elements of x along `dim` by index. `index` (i32) must have the shape of x except in `dim`; the result y has
// the shape of `index`. For two dimensions and dim 0: y[k, i] = x[index[k, i], i]. The caller must ensure that all
// indices are in [0, x.dim(dim)); they are not checked, and other indices are undefined behaviour.
Tensor gather(const Tensor& x, int dim, const Tensor& index);
// Inclusive cumulative sum along `dim`, y[r] = x[0] + ... + x[r], in the shape of x. Sums are f32 (f64 for f64).
Tensor cumulative_sum(const Tensor& x, int dim);

// The sum or mean over `dim`, which is removed from the shape. Without `dim`, over all elements; the result is a
// scalar. Sums are computed in f32 (f64 for f64) and rounded once. The mean of no elements throws UsageError.
Tensor sum(const Tensor& x, int dim);
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x, int dim);
Tensor mean(const Tensor& x);

// Softmax over the last dimension.
Tensor softmax(const Tensor& x);
// GELU in its tanh form, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel 2016), and SiLU,
// x * sigmoid(x). Both are elementwise.
Tensor gelu(const Tensor& x);
Tensor silu(const Tensor& x);

// Normalise over the last dimension, of size C. weight [C]; bias [C] may be undefined. x, weight and bias must be
// different tensors.
//   layer_norm: (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias (Ba et al. 2016)
//   rms_norm:   x / sqrt(mean(x^2) + eps) * weight (Zhang & Sennrich 2019)
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps = 1e-5f);
Tensor rms_norm(const Tensor& x, const Tensor& weight, float eps = 1e-5f);

// Looks up rows of table [V, C] by ids (i32, any shape), which must be in [0, V). Returns [ids..., C].
Tensor embedding(const Tensor& table, const Tensor& ids);

// Options of a loss over targets. A row is the logits of one target.
struct LossOptions {
  // True: targets may be kIgnoredTarget. False: kIgnoredTarget is a bad id, and the loss need not count targets.
  bool may_ignore = true;
  // [1], f32, on the device of the logits. loss = weight * (sum of the rows' losses) / (number of all targets), where
  // an ignored row has loss 0. A caller sets it to average over the targets of several calls. Undefined: (number of all
  // targets) / (number of non-ignored targets), so the loss is the mean over this call's non-ignored targets.
  Tensor weight = {};
  // At least 0. Adds z_loss * log(sum of exp(logits))^2 to the loss of each non-ignored row (Chowdhery et al. 2022,
  // section 5).
  double z_loss = 0;
  // In [0, 1]: the share of the target distribution that is uniform over V (Szegedy et al. 2016, section 7).
  double label_smoothing = 0;
  // Set by an engine while it runs a model's loss(); otherwise null. Code that makes its own LossOptions there must
  // copy it from ForwardContext::loss.
  LossPass* pass = nullptr;
};

// Cross-entropy: the mean of -log softmax(logits)[target] over all targets that are not kIgnoredTarget; 0 if all are
// ignored. logits [..., V], targets i32 [...], at least one. Other targets must be in [0, V). Returns an f32 scalar
// (f64 for f64).
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const LossOptions& options = {});

// Inverted dropout with probability p in [0, 1): sets elements to 0 and multiplies the others by 1 / (1 - p). Keeps
// element i if random number first + i of the stream `key` (libtrain/kernels/random.h), uniform in [0, 1), is at least
// p. So the mask does not depend on the number of ranks. For p = 0 returns x.
Tensor dropout(const Tensor& x, float p, std::uint64_t key, std::uint64_t first = 0);

// --- Fused operations, which the built-in transformers use. ---

// x weight^T + bias + residual. x [..., K], weight [N, K], bias [N], residual [..., N]; returns [..., N]. bias and
// residual may be undefined. The gradient of the residual is the result's gradient, without a copy.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Tensor& residual = {});

// Rows [begin, begin + size) of a matrix.
struct RowRange {
  Size begin = 0, size = 0;
};
// Low-rank adapters for ranges of a weight's rows (Hu et al. 2021). The ranges must be ascending, not empty and
// disjoint.
struct LowRank {
  double scale = 1;
  std::vector<RowRange> ranges = {};
};

// Computes y = linear(x, weight, bias, residual). Then adds scale * (x A_i^T) B_i^T to the columns of y in each range
// i. a [ranges * rank, K] stacks the matrices A_i [rank, K] by rows. b [adapted rows, rank] stacks the matrices B_i
// [rows of range i, rank].
Tensor adapted_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                      const Tensor& a, const Tensor& b, const LowRank& adapter);

// gelu(x up^T + up_bias) down^T + down_bias + residual. x [..., K], up [F, K], up_bias [F], down [N, F], down_bias [N],
// residual [..., N]; returns [..., N]. Biases and residual may be undefined. GELU and its gradient are fused into the
// matmuls if that is faster.
Tensor gelu_ffn(const Tensor& x, const Tensor& up, const Tensor& up_bias, const Tensor& down, const Tensor& down_bias,
                const Tensor& residual = {});

// silu(x[..., :F]) * x[..., F:] for x [..., 2F] (Shazeer 2020). Returns [..., F].
Tensor swiglu(const Tensor& x);

// rms_norm_linear: linear(rms_norm(x, norm_weight, eps), weight, bias).
// rms_norm_swiglu: swiglu(linear(rms_norm(x, norm_weight, eps), gate_up)).
// During generation on CUDA (KernelSettings::constant_weights), without a tape and for at most eight rows, each can run
// as one kernel, which rounds only the result and not the values in between.
Tensor rms_norm_linear(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& weight,
                       const Tensor& bias = {});
Tensor rms_norm_swiglu(const Tensor& x, const Tensor& norm_weight, float eps, const Tensor& gate_up);

// In the operations below, B is the number of sequences and T the tokens of each. `document_starts` (i32 [B, T], may be
// undefined) is Batch::document_starts: for each token, the position in its row at which its document begins. Starts
// must not decrease along a row, and start[b, t] <= t; this is not checked, and other starts are undefined behaviour.
// If `document_starts` is defined, the position of token t is t - start, `first` must be 0, and attention sees only the
// token's own document. So each document gives the same values as alone, except for the rounding of sums.

// The layout of a packed row: [query heads | key heads | value heads], each head with head_dim channels.
struct Heads {
  // Query heads, a multiple of kv_heads; key and value heads; channels per head.
  Size heads = 0, kv_heads = 0, head_dim = 0;
  Size row() const { return (heads + 2 * kv_heads) * head_dim; }  // channels of a row
};

// Rotates the queries and keys of qkv [B, T, row] by position (rotary embedding, Su et al. 2021). Token t has position
// first + t. head_dim must be even. If the caller moves the only handle of qkv in, the result takes over its storage.
Tensor rope(Tensor qkv, const Heads& heads, double base, Size first = 0, const RopeScaling& scaling = {},
            const Tensor& document_starts = {});

// RMSNorm of each query head of qkv [B, T, row] by q_weight [head_dim], and of each key head by k_weight [head_dim]
// (Henry et al. 2020). The two weights must be different tensors.
Tensor qk_norm(const Tensor& qkv, const Heads& heads, const Tensor& q_weight, const Tensor& k_weight,
               float eps = 1e-5f);

// Causal softmax attention with scale 1/sqrt(head_dim) on qkv [B, T, row]. Returns [B, T, heads * head_dim]. Each
// heads / kv_heads consecutive query heads share a key and value head (Ainslie et al. 2023). With a window, position i
// sees only positions i - window + 1 to i (Beltagy et al. 2020); 0: all positions up to i. Works in blocks, without a
// T x T matrix (Dao et al. 2022), except in the deterministic backward pass of cuDNN (KernelSettings::deterministic).
Tensor attention(const Tensor& qkv, const Heads& heads, Size window = 0, const Tensor& document_starts = {});

// Returns the number of query-key pairs that the causal mask and the window leave in T tokens, for estimates of FLOPs.
// A pair on the diagonal is half a pair, so without a window the number is T * T / 2.
inline double visible_pairs(Size T, Size window) {
  const Size w = window > 0 && window < T ? window : T;
  return static_cast<double>(w) * (static_cast<double>(T) - static_cast<double>(w) / 2);
}

// Keys and values of past tokens, for generation.
struct KvCache {
  Tensor k = {}, v = {};  // [B, capacity, kv_heads * head_dim]
  Size length = 0;        // tokens held per sequence; with `lengths`, the largest of them
  Tensor lengths = {};    // i32 [B]: tokens held by each sequence; undefined: `length` for all
};
// Attention of the T new tokens in qkv [B, T, row] to the cached tokens and to each other, after rope() with base
// `rope_base` (0: no rotation). Appends the new keys and values to the cache, but does not change length or lengths:
// the caller must add T after the last layer has run. Throws UsageError if length + T exceeds the capacity, and for T
// other than 1 if `lengths` is defined. The caller must ensure that all `lengths` are in [0, length]; they are not
// checked. Records no gradient.
Tensor attention_cached(Tensor qkv, const Heads& heads, KvCache& cache, Size window = 0, double rope_base = 0,
                        const RopeScaling& scaling = {});

// wte[ids] + wpe[first + t]. ids i32 [B, T] in [0, V), wte [V, C], wpe [positions, C]; returns [B, T, C]. Throws
// UsageError if first + T exceeds the rows of wpe. wte and wpe must be different tensors.
Tensor embedding_with_positions(const Tensor& wte, const Tensor& wpe, const Tensor& ids, Size first = 0,
                                const Tensor& document_starts = {});

// cross_entropy(x weight^T, targets, options) for x [..., C], weight [V, C] and targets i32 [...]. Works in chunks of
// rows, so that only one chunk of logits exists at a time. In an engine's step, the forward pass computes the gradients
// of each chunk while its logits exist; elsewhere, the backward pass recomputes the logits. x and weight must be
// different tensors.
Tensor head_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                          const LossOptions& options = {});

// A number that an operator takes.
template <class T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

}  // namespace ops
}  // namespace lt

namespace LT_API lt {

// x + y, 2 - x, x / 2, -x: add(), sub(), mul(), div() and scale() above, for tensors and numbers.
inline Tensor operator+(const Tensor& a, const Tensor& b) { return ops::add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return ops::sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return ops::mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return ops::div(a, b); }
inline Tensor operator-(const Tensor& x) { return ops::scale(x, -1); }
template <ops::Number N>
Tensor operator+(const Tensor& a, N b) {
  return ops::add(a, static_cast<double>(b));
}
template <ops::Number N>
Tensor operator+(N a, const Tensor& b) {
  return ops::add(b, static_cast<double>(a));
}
template <ops::Number N>
Tensor operator-(const Tensor& a, N b) {
  return ops::sub(a, static_cast<double>(b));
}
template <ops::Number N>
Tensor operator-(N a, const Tensor& b) {
  return ops::sub(static_cast<double>(a), b);
}
template <ops::Number N>
Tensor operator*(const Tensor& a, N b) {
  return ops::scale(a, static_cast<double>(b));
}
template <ops::Number N>
Tensor operator*(N a, const Tensor& b) {
  return ops::scale(b, static_cast<double>(a));
}
template <ops::Number N>
Tensor operator/(const Tensor& a, N b) {
  return ops::div(a, static_cast<double>(b));
}
template <ops::Number N>
Tensor operator/(N a, const Tensor& b) {
  return ops::div(static_cast<double>(a), b);
}

}  // namespace lt
