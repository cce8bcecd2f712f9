// QK-norm on the CPU. Each thread takes whole rows; the gradients of the weights are summed in fixed blocks of rows.
#include "kernels/qk_norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/row_blocks.h"

namespace lt::kernels {
namespace {

template <class T>
LT_INLINE void normalise_head(T* y, Arithmetic<T>* rstd, const T* x, const T* w, Size D, Arithmetic<T> eps) {
  using A = Arithmetic<T>;
  A squares[kLanes] = {};
  for_lanes(D, [&](Size d, Size lane) LT_VECTOR_BODY { squares[lane] += load(x[d]) * load(x[d]); });
  const A factor = A(1) / std::sqrt(fold(squares) / static_cast<A>(D) + eps);
  *rstd = factor;
#pragma omp simd
  for (Size d = 0; d < D; ++d) y[d] = store<T>(load(x[d]) * factor * load(w[d]));
}

// With h = x * rstd and g = dy * w: dx = rstd * (g - h * mean_D(g * h)). Adds dy * h to dw. dx may be dy.
template <class T>
LT_INLINE void differentiate_head(T* dx, Arithmetic<T>* dw, const T* dy, const T* x, const T* w, Size D,
                                  Arithmetic<T> rstd) {
  using A = Arithmetic<T>;
  A sums[kLanes] = {};
  for_lanes(D, [&](Size d, Size lane) LT_VECTOR_BODY {
    const A h = load(x[d]) * rstd, gradient = load(dy[d]);
    sums[lane] += gradient * load(w[d]) * h;
    dw[d] += gradient * h;
  });
  const A mean = fold(sums) / static_cast<A>(D);
#pragma omp simd
  for (Size d = 0; d < D; ++d) {
    const A h = load(x[d]) * rstd;
    dx[d] = store<T>(rstd * (load(dy[d]) * load(w[d]) - h * mean));
  }
}

}  // namespace

template <>
void qk_norm_forward(CpuStream, const QkNormForward& norm) {
  dispatch_float(norm.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    parallel_for(norm.shape.rows, row_grain(norm.shape.row()), [=](Size begin, Size end) LT_VECTOR_BODY {
      const QkNormShape s = norm.shape;
      const Size normalised = s.heads() * s.D;
      for (Size r = begin; r < end; ++r) {
        const T* const x = static_cast<const T*>(norm.x) + r * s.row();
        T* const y = static_cast<T*>(norm.y) + r * s.row();
        A* const rstd = static_cast<A*>(norm.rstd) + r * s.heads();
        for (Size n = 0; n < s.heads(); ++n) {
          const T* const w = static_cast<const T*>(n < s.H ? norm.wq_D : norm.wk_D);
          normalise_head(y + n * s.D, rstd + n, x + n * s.D, w, s.D, static_cast<A>(norm.eps));
        }
        std::copy(x + normalised, x + s.row(), y + normalised);
      }
    });
  });
}

template <>
void qk_norm_backward(CpuStream, const QkNormBackward& norm) {
  dispatch_float(norm.dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const Size D = norm.shape.D;
    const RowBlocks blocks(norm.shape.rows);
    A* const partial = scratch<A>(blocks.count * 2 * D);  // for each block: dwq, then dwk
    parallel_for(blocks.count, blocks.grain(norm.shape.row()), [=](Size begin, Size end) LT_VECTOR_BODY {
      const QkNormShape s = norm.shape;
      const Size normalised = s.heads() * s.D;
      for (Size block = begin; block < end; ++block) {
        A *const dwq = partial + block * 2 * s.D, *const dwk = dwq + s.D;
        std::fill(dwq, dwq + 2 * s.D, A(0));
        const Size last = std::min((block + 1) * blocks.rows, s.rows);
        for (Size r = block * blocks.rows; r < last; ++r) {
          const T *const x = static_cast<const T*>(norm.x) + r * s.row(), *const dy = static_cast<const T*>(norm.dy) +
                                                                                      r * s.row();
          T* const dx = static_cast<T*>(norm.dx) + r * s.row();
          const A* const rstd = static_cast<const A*>(norm.rstd) + r * s.heads();
          for (Size n = 0; n < s.heads(); ++n) {
            const T* const w = static_cast<const T*>(n < s.H ? norm.wq_D : norm.wk_D);
            differentiate_head(dx + n * s.D, n < s.H ? dwq : dwk, dy + n * s.D, x + n * s.D, w, s.D, rstd[n]);
          }
          if (dx != dy) std::copy(dy + normalised, dy + s.row(), dx + normalised);
        }
      }
    });
    if (norm.dwq_D) {
      combine_blocks(static_cast<A*>(norm.dwq_D), partial, 2 * D, blocks.count, D, norm.accumulate_dwq);
    }
    if (norm.dwk_D) {
      combine_blocks(static_cast<A*>(norm.dwk_D), partial + D, 2 * D, blocks.count, D, norm.accumulate_dwk);
    }
  });
}

}  // namespace lt::kernels
