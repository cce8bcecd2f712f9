// Softmax and cross-entropy on the CPU; rows are independent. The largest element is subtracted before the exponential.
// The search for it may miss a NaN in the row, but the exponentials bring it back.
#include "kernels/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/map.h"

namespace lt::kernels {
namespace {

template <class T>
LT_INLINE Arithmetic<T> row_max(const T* x, Size C) {
  using A = Arithmetic<T>;
  A most[kLanes];
  for (Size k = 0; k < kLanes; ++k) most[k] = -std::numeric_limits<A>::infinity();
  for_lanes(C,
            [&](Size c, Size lane) LT_VECTOR_BODY { most[lane] = load(x[c]) > most[lane] ? load(x[c]) : most[lane]; });
  return fold_max(most);
}

template <class T>
LT_INLINE Arithmetic<T> row_sum_exp(const T* x, Size C, Arithmetic<T> most) {
  Arithmetic<T> sum[kLanes] = {};
  for_lanes(C, [&](Size c, Size lane) LT_VECTOR_BODY { sum[lane] += fast_exp_negative(load(x[c]) - most); });
  return fold(sum);
}

template <class T>
LT_INLINE Arithmetic<T> row_sum(const T* x, Size C) {
  Arithmetic<T> sum[kLanes] = {};
  for_lanes(C, [&](Size c, Size lane) LT_VECTOR_BODY { sum[lane] += load(x[c]); });
  return fold(sum);
}

}  // namespace

template <>
void softmax_forward(CpuStream, DType dtype, void* y_RC, const void* x_RC, Size R, Size C) {
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    parallel_for(R, row_grain(C), [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size r = begin; r < end; ++r) {
        const T* const x = static_cast<const T*>(x_RC) + r * C;
        T* const y = static_cast<T*>(y_RC) + r * C;
        const A most = row_max(x, C), factor = A(1) / row_sum_exp(x, C, most);
#pragma omp simd
        for (Size c = 0; c < C; ++c) y[c] = store<T>(fast_exp_negative(load(x[c]) - most) * factor);
      }
    });
  });
}

template <>
void softmax_backward(CpuStream, DType dtype, void* dx_RC, const void* dy_RC, const void* y_RC, Size R, Size C,
                      bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    dispatch_flag(accumulate, [&](auto flag) {
      parallel_for(R, row_grain(C), [=](Size begin, Size end) LT_VECTOR_BODY {
        for (Size r = begin; r < end; ++r) {
          const T *const dy = static_cast<const T*>(dy_RC) + r * C, *const y = static_cast<const T*>(y_RC) + r * C;
          T* const dx = static_cast<T*>(dx_RC) + r * C;
          A products[kLanes] = {};
          for_lanes(C, [&](Size c, Size lane) LT_VECTOR_BODY { products[lane] += load(dy[c]) * load(y[c]); });
          const A dot = fold(products);
#pragma omp simd
          for (Size c = 0; c < C; ++c) {
            const A value = load(y[c]) * (load(dy[c]) - dot);
            dx[c] = store<T>(flag ? load(dx[c]) + value : value);
          }
        }
      });
    });
  });
}

template <>
void cross_entropy_forward(CpuStream, const CrossEntropyForward& k) {
  const Size V = k.V;
  const std::int32_t* const targets_M = k.targets_M;
  dispatch_float(k.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    A *const losses = static_cast<A*>(k.losses_M), *const lse = static_cast<A*>(k.lse_M);
    const T* const logits = static_cast<const T*>(k.logits_MV);
    const A z_loss = static_cast<A>(k.terms.z_loss), smoothing = static_cast<A>(k.terms.label_smoothing);
    dispatch_flag(k.terms.none(), [&](auto plain) {
      parallel_for(k.M, row_grain(V), [=](Size begin, Size end) LT_VECTOR_BODY {
        for (Size m = begin; m < end; ++m) {
          if (targets_M[m] == kIgnoredTarget) {
            losses[m] = lse[m] = 0;
            continue;
          }
          const T* const x = logits + m * V;
          const A most = row_max(x, V);
          lse[m] = most + std::log(row_sum_exp(x, V, most));
          losses[m] = lse[m] - load(x[targets_M[m]]);
          if (plain) continue;
          // A logit of -infinity makes the mean over all classes infinite, which 0 does not take back.
          const A of_all = smoothing == 0 ? losses[m] : lse[m] - row_sum(x, V) / static_cast<A>(V);
          losses[m] += smoothing * (of_all - losses[m]) + z_loss * lse[m] * lse[m];
        }
      });
    });
  });
}

template <>
void cross_entropy_backward(CpuStream, const CrossEntropyBackward& k) {
  const Size V = k.V;
  const std::int32_t* const targets_M = k.targets_M;
  dispatch_float(k.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const T* const logits = static_cast<const T*>(k.logits_MV);
    T* const dlogits = static_cast<T*>(k.dlogits_MV);
    const A* const lse = static_cast<const A*>(k.lse_M);
    const A factor = static_cast<A>(k.scale) * (k.d_loss ? *static_cast<const A*>(k.d_loss) : A(1)) *
                     (k.weight ? static_cast<A>(*k.weight) : A(1));
    const A z_loss = static_cast<A>(k.terms.z_loss), smoothing = static_cast<A>(k.terms.label_smoothing);
    const A of_each = factor * smoothing / static_cast<A>(V);  // smoothing takes it from every element
    dispatch_flag(k.accumulate, [&](auto flag) {
      dispatch_flag(k.terms.none(), [&](auto plain) {
        parallel_for(k.M, row_grain(V), [=](Size begin, Size end) LT_VECTOR_BODY {
          for (Size m = begin; m < end; ++m) {
            const T* const x = logits + m * V;
            T* const dx = dlogits + m * V;
            const Size target = targets_M[m];
            if (target == kIgnoredTarget) {
              if (!flag) std::fill_n(dx, V, store<T>(A(0)));
              continue;
            }
            // Computed from the old values before the row is overwritten, so the target's element is rounded once.
            const A shift = lse[m], p_target = fast_exp_negative(load(x[target]) - shift);
            const A of_p = plain ? factor : factor * (A(1) + 2 * z_loss * shift);
            const A at_target =
                plain ? factor * (p_target - A(1)) : of_p * p_target - of_each - factor * (A(1) - smoothing);
            const T kept = store<T>(flag ? load(dx[target]) + at_target : at_target);
#pragma omp simd
            for (Size v = 0; v < V; ++v) {
              const A p = fast_exp_negative(load(x[v]) - shift), value = plain ? of_p * p : of_p * p - of_each;
              dx[v] = store<T>(flag ? load(dx[v]) + value : value);
            }
            dx[target] = kept;
          }
        });
      });
    });
  });
}

template <>
void cross_entropy_in_place(CpuStream stream, const CrossEntropyForward& loss, const CrossEntropyBackward& gradient) {
  cross_entropy_forward(stream, loss);
  cross_entropy_backward(stream, gradient);
}

template <>
void count_targets(CpuStream, float* counts_n, Size n, const std::int32_t* targets_nN, Size N) {
  for (Size row = 0; row < n; ++row) {
    Size counted = 0;
    for (Size i = 0; i < N; ++i) counted += targets_nN[row * N + i] != kIgnoredTarget;
    counts_n[row] = static_cast<float>(counted);
  }
}

template <>
void target_weight(CpuStream, float* weight, const float* counts_n, Size n, double targets) {
  double counted = 0;
  for (Size i = 0; i < n; ++i) counted += static_cast<double>(counts_n[i]);
  *weight = counted > 0 ? static_cast<float>(targets / counted) : 0;
}

}  // namespace lt::kernels
