// Attention as the formula is written, one sequence and one head at a time.
#include <limits>
#include <vector>

#include "bench/attention_methods.h"
#include "kernels/cpu/math.h"

namespace lt::bench {
namespace {

using kernels::load, kernels::store;

// The rows of one sequence as seen by one query head.
template <class T>
struct Head {
  const T *q_TD, *k_TD, *v_TD;  // rows are `row` elements apart
  Size row, D;
  float scale;
};

// p = softmax(scale * q k^T) and out = p v. Rows of out are `out_row` elements apart.
template <class T>
LT_INLINE void attend(const Head<T>& head, float* p_TT, T* out_TD, Size out_row, Size T_) {
  std::vector<float> sums(static_cast<std::size_t>(head.D));
  float* const sum = sums.data();
  for (Size t = 0; t < T_; ++t) {
    float* const p = p_TT + t * T_;
    const T* const q = head.q_TD + t * head.row;
    float max = -std::numeric_limits<float>::infinity(), total = 0;
    for (Size j = 0; j <= t; ++j) {
      const T* const k = head.k_TD + j * head.row;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (Size d = 0; d < head.D; ++d) dot += load(q[d]) * load(k[d]);
      p[j] = head.scale * dot;
      max = p[j] > max ? p[j] : max;
    }
    for (Size j = 0; j <= t; ++j) total += p[j] = kernels::fast_exp_negative(p[j] - max);
    for (Size j = 0; j <= t; ++j) p[j] /= total;
    for (Size d = 0; d < head.D; ++d) sum[d] = 0;
    for (Size j = 0; j <= t; ++j) {
      const T* const v = head.v_TD + j * head.row;
#pragma omp simd
      for (Size d = 0; d < head.D; ++d) sum[d] += p[j] * load(v[d]);
    }
    for (Size d = 0; d < head.D; ++d) out_TD[t * out_row + d] = store<T>(sum[d]);
  }
}

// ds = scale * p (dp - sum of p dp over the row) with dp = dout v^T.
template <class T>
LT_INLINE void score_gradients(const Head<T>& head, float* ds_TT, const float* p_TT, const T* dout_TD, Size out_row,
                               Size T_) {
  for (Size t = 0; t < T_; ++t) {
    float* const ds = ds_TT + t * T_;
    float delta = 0;
    const float* const p = p_TT + t * T_;
    const T* const dout = dout_TD + t * out_row;
    for (Size j = 0; j <= t; ++j) {
      const T* const v = head.v_TD + j * head.row;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (Size d = 0; d < head.D; ++d) dot += load(dout[d]) * load(v[d]);
      ds[j] = dot;
      delta += p[j] * dot;
    }
    for (Size j = 0; j <= t; ++j) ds[j] = head.scale * p[j] * (ds[j] - delta);
  }
}

// dx_j = the sum over the query heads of a group, and over t, of weight_tj * y_t. Each head's weights lie `weight_step`
// elements, and its rows `D` elements, after those of the head before. If `later`, t runs from j on; otherwise t runs
// up to j and the weight is weight_jt.
template <class T>
LT_INLINE void weighted_sums(T* dx_TD, Size row, const float* weight_TT, Size weight_step, const T* y_TD, Size y_row,
                             Size heads, Size D, Size T_, bool later) {
  std::vector<float> sums(static_cast<std::size_t>(D));
  float* const sum = sums.data();
  for (Size j = 0; j < T_; ++j) {
    for (Size d = 0; d < D; ++d) sum[d] = 0;
    for (Size h = 0; h < heads; ++h) {
      const float* const weight = weight_TT + h * weight_step;
      for (Size t = later ? j : 0; t < (later ? T_ : j + 1); ++t) {
        const float w = later ? weight[t * T_ + j] : weight[j * T_ + t];
        const T* const y = y_TD + t * y_row + h * D;
#pragma omp simd
        for (Size d = 0; d < D; ++d) sum[d] += w * load(y[d]);
      }
    }
    for (Size d = 0; d < D; ++d) dx_TD[j * row + d] = store<T>(sum[d]);
  }
}

template <class T>
class NaiveAttention final : public AttentionMethod {
 public:
  explicit NaiveAttention(const AttentionInputs& inputs)
      : AttentionMethod(inputs),
        p_(Tensor::zeros({inputs.matrix()}, DType::f32)),
        ds_(Tensor::zeros({inputs.matrix()}, DType::f32)) {}

  void forward() override {
    const kernels::AttentionShape s = in_.shape;
    const auto scale = static_cast<float>(in_.scale);
    const T* const qkv = in_.qkv.data<T>();
    float* const p = p_.data<float>();
    T* const out = out_.data<T>();
    kernels::parallel_items(s.B * s.H, [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size i = begin; i < end; ++i) {
        attend(head_of(qkv, s, i / s.H, i % s.H, scale), p + i * s.T * s.T, out + (i / s.H * s.T * s.H + i % s.H) * s.D,
               s.H * s.D, s.T);
      }
    });
  }

  void backward() override {
    const kernels::AttentionShape s = in_.shape;
    const auto scale = static_cast<float>(in_.scale);
    const T *const qkv = in_.qkv.data<T>(), *const dout = in_.dout.data<T>();
    const float* const p = p_.data<float>();
    float* const ds = ds_.data<float>();
    T* const dqkv = dqkv_.data<T>();
    // An item is a key/value head with the query heads that read it.
    kernels::parallel_items(s.B * s.G, [=](Size begin, Size end) LT_VECTOR_BODY {
      const Size heads = s.H / s.G, matrix = s.T * s.T, row = s.row();
      for (Size i = begin; i < end; ++i) {
        const Size b = i / s.G, g = i % s.G, first = g * heads, matrices = (b * s.H + first) * matrix;
        const Size sequence = b * s.T * row, q_at = sequence + first * s.D, k_at = sequence + (s.H + g) * s.D;
        const T* const dout_h = dout + (b * s.T * s.H + first) * s.D;
        for (Size h = 0; h < heads; ++h) {
          score_gradients(head_of(qkv, s, b, first + h, scale), ds + matrices + h * matrix, p + matrices + h * matrix,
                          dout_h + h * s.D, s.H * s.D, s.T);
          weighted_sums(dqkv + q_at + h * s.D, row, ds + matrices + h * matrix, matrix, qkv + k_at, row, 1, s.D, s.T,
                        false);
        }
        weighted_sums(dqkv + k_at, row, ds + matrices, matrix, qkv + q_at, row, heads, s.D, s.T, true);
        weighted_sums(dqkv + k_at + s.G * s.D, row, p + matrices, matrix, dout_h, s.H * s.D, heads, s.D, s.T, true);
      }
    });
  }

 private:
  LT_INLINE static Head<T> head_of(const T* qkv, const kernels::AttentionShape& s, Size b, Size h, float scale) {
    const T *const q = qkv + b * s.T * s.row() + h * s.D, *const k = q + (s.H - h + h * s.G / s.H) * s.D;
    return {q, k, k + s.G * s.D, s.row(), s.D, scale};
  }

  Tensor p_, ds_;  // [B, H, T, T]; elements right of the diagonal stay 0
};

}  // namespace

std::unique_ptr<AttentionMethod> naive_attention(const AttentionInputs& inputs) {
  if (inputs.qkv.dtype() == DType::bf16) return std::make_unique<NaiveAttention<bf16>>(inputs);
  return std::make_unique<NaiveAttention<float>>(inputs);
}

}  // namespace lt::bench
