// Softmax and cross-entropy on the CPU; rows are independent. The largest element is subtracted before the exponential.
// The search for it may miss a NaN in the row, but the exponentials bring it back.
#include "kernels/loss.h"

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
void cross_entropy_forward(CpuStream, DType dtype, void* losses_M, void* lse_M, const void* logits_MV,
                           const std::int32_t* targets_M, Size M, Size V) {
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    A *const losses = static_cast<A*>(losses_M), *const lse = static_cast<A*>(lse_M);
    parallel_for(M, row_grain(V), [=](Size begin, Size end) LT_VECTOR_BODY {
      for (Size m = begin; m < end; ++m) {
        const T* const x = static_cast<const T*>(logits_MV) + m * V;
        const A most = row_max(x, V);
        lse[m] = most + std::log(row_sum_exp(x, V, most));
        losses[m] = lse[m] - load(x[targets_M[m]]);
      }
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
    const A factor = static_cast<A>(k.scale) * (k.d_loss ? *static_cast<const A*>(k.d_loss) : A(1));
    dispatch_flag(k.accumulate, [&](auto flag) {
      parallel_for(k.M, row_grain(V), [=](Size begin, Size end) LT_VECTOR_BODY {
        for (Size m = begin; m < end; ++m) {
          const T* const x = logits + m * V;
          T* const dx = dlogits + m * V;
          // Computed from the old values before the row is overwritten, so the target's element is rounded once.
          const Size target = targets_M[m];
          const A at_target = factor * (fast_exp_negative(load(x[target]) - lse[m]) - A(1));
          const T kept = store<T>(flag ? load(dx[target]) + at_target : at_target);
          const A shift = lse[m];
#pragma omp simd
          for (Size v = 0; v < V; ++v) {
            const A value = factor * fast_exp_negative(load(x[v]) - shift);
            dx[v] = store<T>(flag ? load(dx[v]) + value : value);
          }
          dx[target] = kept;
        }
      });
    });
  });
}

}  // namespace lt::kernels
