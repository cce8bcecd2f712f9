// LayerNorm and RMSNorm on the CPU. A row stays in the first-level cache for all its passes, so memory is read once.
// The same passes sum the gradients of the parameters, in fixed blocks of rows.
#include "kernels/norm.h"

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/row_blocks.h"

namespace lt::kernels {
namespace {

// Backward of y = h * w (+ b) with h = (x - mean) * rstd; mean = 0 if the norm does not centre.
// With g = dy * w: dx = rstd * (g - h * mean_C(g * h) - [centred] mean_C(g)), dw = sum_R(dy * h), db = sum_R(dy).
template <class T, bool kCentred>
struct Backward {
  using A = Arithmetic<T>;

  T* dx_RC;
  bool accumulate_dx;
  A *dw_C, *db_C;  // either may be null
  bool accumulate_dw, accumulate_db;
  const T *dy_RC, *x_RC, *w_C;
  const A *mean_R, *rstd_R;
  Size R, C;

  void run() const {
    const RowBlocks blocks(R);
    const bool weights = dw_C || db_C;
    A* const partial = weights ? scratch<A>(blocks.count * 2 * C) : nullptr;
    dispatch_flag(weights, [&](auto flag) { rows(flag, blocks, partial); });
    if (dw_C) combine_blocks(dw_C, partial, 2 * C, blocks.count, C, accumulate_dw);
    if (db_C) combine_blocks(db_C, partial + C, 2 * C, blocks.count, C, accumulate_db);
  }

 private:
  template <class Flag>
  void rows(Flag weights, RowBlocks blocks, A* partial) const {
    parallel_for(blocks.count, blocks.grain(C), [=, k = *this](Size begin, Size end) LT_VECTOR_BODY {
      const Size C = k.C;
      const T* const w = k.w_C;
      for (Size block = begin; block < end; ++block) {
        A *const pw = partial + block * 2 * C, *const pb = pw + C;
        if constexpr (weights) {
          for (Size c = 0; c < 2 * C; ++c) pw[c] = A(0);
        }
        const Size last = (block + 1) * blocks.rows < k.R ? (block + 1) * blocks.rows : k.R;
        for (Size r = block * blocks.rows; r < last; ++r) {
          const T *const x = k.x_RC + r * C, *const dy = k.dy_RC + r * C;
          const A mean = kCentred ? k.mean_R[r] : A(0), rstd = k.rstd_R[r];
          A sum_g[kLanes] = {}, sum_gh[kLanes] = {};
          for_lanes(C, [&](Size c, Size lane) LT_VECTOR_BODY {
            const A d = load(dy[c]), h = (load(x[c]) - mean) * rstd, g = d * load(w[c]);
            sum_gh[lane] += g * h;
            if constexpr (kCentred) sum_g[lane] += g;
            if constexpr (weights) {
              pw[c] += d * h;
              if constexpr (kCentred) pb[c] += d;
            }
          });
          if (!k.dx_RC) continue;
          const A mean_g = fold(sum_g) / static_cast<A>(C), mean_gh = fold(sum_gh) / static_cast<A>(C);
          T* const dx = k.dx_RC + r * C;
          if (k.accumulate_dx) {
#pragma omp simd
            for (Size c = 0; c < C; ++c) {
              const A h = (load(x[c]) - mean) * rstd, g = load(dy[c]) * load(w[c]);
              dx[c] = store<T>(load(dx[c]) + rstd * (g - mean_g - h * mean_gh));
            }
          } else {
#pragma omp simd
            for (Size c = 0; c < C; ++c) {
              const A h = (load(x[c]) - mean) * rstd, g = load(dy[c]) * load(w[c]);
              dx[c] = store<T>(rstd * (g - mean_g - h * mean_gh));
            }
          }
        }
      }
    });
  }
};

template <class T>
void layer_norm(T* y_RC, Arithmetic<T>* mean_R, Arithmetic<T>* rstd_R, const T* x_RC, const T* w, const T* b, Size R,
                Size C, float eps) {
  using A = Arithmetic<T>;
  parallel_for(R, row_grain(C), [=](Size begin, Size end) LT_VECTOR_BODY {
    for (Size r = begin; r < end; ++r) {
      const T* const x = x_RC + r * C;
      T* const y = y_RC + r * C;
      A sum[kLanes] = {}, squares[kLanes] = {};
      for_lanes(C, [&](Size c, Size lane) LT_VECTOR_BODY { sum[lane] += load(x[c]); });
      const A mean = fold(sum) / static_cast<A>(C);
      for_lanes(C,
                [&](Size c, Size lane) LT_VECTOR_BODY { squares[lane] += (load(x[c]) - mean) * (load(x[c]) - mean); });
      const A rstd = A(1) / std::sqrt(fold(squares) / static_cast<A>(C) + static_cast<A>(eps));
      mean_R[r] = mean, rstd_R[r] = rstd;
      if (b) {
#pragma omp simd
        for (Size c = 0; c < C; ++c) y[c] = store<T>((load(x[c]) - mean) * rstd * load(w[c]) + load(b[c]));
      } else {
#pragma omp simd
        for (Size c = 0; c < C; ++c) y[c] = store<T>((load(x[c]) - mean) * rstd * load(w[c]));
      }
    }
  });
}

template <class T>
void rms_norm(T* y_RC, Arithmetic<T>* rstd_R, const T* x_RC, const T* w, Size R, Size C, float eps) {
  using A = Arithmetic<T>;
  parallel_for(R, row_grain(C), [=](Size begin, Size end) LT_VECTOR_BODY {
    for (Size r = begin; r < end; ++r) {
      const T* const x = x_RC + r * C;
      T* const y = y_RC + r * C;
      A squares[kLanes] = {};
      for_lanes(C, [&](Size c, Size lane) LT_VECTOR_BODY { squares[lane] += load(x[c]) * load(x[c]); });
      const A rstd = A(1) / std::sqrt(fold(squares) / static_cast<A>(C) + static_cast<A>(eps));
      rstd_R[r] = rstd;
#pragma omp simd
      for (Size c = 0; c < C; ++c) y[c] = store<T>(load(x[c]) * rstd * load(w[c]));
    }
  });
}

}  // namespace

template <>
void layer_norm_forward(CpuStream, const LayerNormForward& n) {
  dispatch_float(n.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    layer_norm(static_cast<T*>(n.y_RC), static_cast<A*>(n.mean_R), static_cast<A*>(n.rstd_R),
               static_cast<const T*>(n.x_RC), static_cast<const T*>(n.w_C), static_cast<const T*>(n.b_C), n.R, n.C,
               n.eps);
  });
}

template <>
void layer_norm_backward(CpuStream, const LayerNormBackward& n) {
  dispatch_float(n.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    Backward<T, true>{.dx_RC = static_cast<T*>(n.dx_RC),
                      .accumulate_dx = n.accumulate_dx,
                      .dw_C = static_cast<A*>(n.dw_C),
                      .db_C = static_cast<A*>(n.db_C),
                      .accumulate_dw = n.accumulate_dw,
                      .accumulate_db = n.accumulate_db,
                      .dy_RC = static_cast<const T*>(n.dy_RC),
                      .x_RC = static_cast<const T*>(n.x_RC),
                      .w_C = static_cast<const T*>(n.w_C),
                      .mean_R = static_cast<const A*>(n.mean_R),
                      .rstd_R = static_cast<const A*>(n.rstd_R),
                      .R = n.R,
                      .C = n.C}
        .run();
  });
}

template <>
void rms_norm_forward(CpuStream, const RmsNormForward& n) {
  dispatch_float(n.dtype, [&]<class T>() {
    rms_norm(static_cast<T*>(n.y_RC), static_cast<Arithmetic<T>*>(n.rstd_R), static_cast<const T*>(n.x_RC),
             static_cast<const T*>(n.w_C), n.R, n.C, n.eps);
  });
}

template <>
void rms_norm_backward(CpuStream, const RmsNormBackward& n) {
  dispatch_float(n.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    Backward<T, false>{.dx_RC = static_cast<T*>(n.dx_RC),
                       .accumulate_dx = n.accumulate_dx,
                       .dw_C = static_cast<A*>(n.dw_C),
                       .db_C = nullptr,
                       .accumulate_dw = n.accumulate_dw,
                       .accumulate_db = false,
                       .dy_RC = static_cast<const T*>(n.dy_RC),
                       .x_RC = static_cast<const T*>(n.x_RC),
                       .w_C = static_cast<const T*>(n.w_C),
                       .mean_R = nullptr,
                       .rstd_R = static_cast<const A*>(n.rstd_R),
                       .R = n.R,
                       .C = n.C}
        .run();
  });
}

}  // namespace lt::kernels
