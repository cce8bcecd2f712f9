// Flat loops y_i (+)= f(i).
#pragma once

#include "kernels/cpu/math.h"
#include "kernels/cpu/parallel.h"

namespace lt::kernels {

inline constexpr Size kGrain = 16384;  // elements of light work that justify waking a thread

// Returns the number of rows of C elements that justify waking a thread.
inline Size row_grain(Size C) { return C > 0 && C < kGrain ? kGrain / C : 1; }

// y_i (+)= f(i) in the arithmetic of Y. f is a lambda marked LT_VECTOR_BODY that captures by value.
template <class Y, class F>
void map(Y* y_N, Size N, bool accumulate, F f) {
  dispatch_flag(accumulate, [=](auto add) {
    parallel_for(N, kGrain, [=](Size begin, Size end) LT_VECTOR_BODY {
      Y* const y = y_N;
      const F value = f;
#pragma omp simd
      for (Size i = begin; i < end; ++i) {
        if constexpr (add) {
          y[i] = store<Y>(static_cast<Arithmetic<Y>>(load(y[i]) + value(i)));
        } else {
          y[i] = store<Y>(static_cast<Arithmetic<Y>>(value(i)));
        }
      }
    });
  });
}

}  // namespace lt::kernels
