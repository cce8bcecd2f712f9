// Rotary position embedding on the CPU. The angles of a position are computed once for all sequences and heads. They
// depend only on the position: the standard library gives those of the nearest multiple of kAnchor below it, and single
// steps of the angle addition formula in double give the rest.
#include "kernels/rope.h"

#include <cmath>

#include "kernels/cpu/map.h"

namespace lt::kernels {
namespace {

constexpr Size kAnchor = 32;  // positions between exact angles; each step adds an error of about 1e-15
constexpr Size kPairs = 64;   // pairs of a head rotated at a time

// The unit vectors (cos, sin) of `pairs` angles at one position, and their steps to the next.
struct Angles {
  double rate[kPairs], cosine[kPairs], sine[kPairs], step_cosine[kPairs], step_sine[kPairs];

  void start(Size first_pair, Size pairs, Size D, double base) {
    for (Size d = 0; d < pairs; ++d) {
      rate[d] = std::pow(base, -2.0 * static_cast<double>(first_pair + d) / static_cast<double>(D));
      step_cosine[d] = std::cos(rate[d]), step_sine[d] = std::sin(rate[d]);
    }
  }
  void anchor(Size position, Size pairs) {
    for (Size d = 0; d < pairs; ++d) {
      cosine[d] = std::cos(static_cast<double>(position) * rate[d]);
      sine[d] = std::sin(static_cast<double>(position) * rate[d]);
    }
  }
  LT_INLINE void step(Size pairs) {
#pragma omp simd
    for (Size d = 0; d < pairs; ++d) {
      const double c = cosine[d], s = sine[d];
      cosine[d] = c * step_cosine[d] - s * step_sine[d];
      sine[d] = s * step_cosine[d] + c * step_sine[d];
    }
  }
};

struct Shape {
  Size B, T, row, heads, D;
};

// Rotates pairs [first_pair, first_pair + pairs) of every head at the positions first + [begin, end).
template <class T, bool kAdd>
LT_INLINE void rotate(T* y_BTrow, const T* x_BTrow, const Shape& s, Size first_pair, Size pairs, double base,
                      Size first, double direction, Size begin, Size end) {
  using A = Arithmetic<T>;
  Angles angles;
  angles.start(first_pair, pairs, s.D, base);
  A cosine[kPairs], sine[kPairs];
  for (Size t = begin; t < end; ++t) {
    const Size position = first + t;
    if (t == begin || position % kAnchor == 0) {
      angles.anchor(position - position % kAnchor, pairs);
      for (Size i = 0; i < position % kAnchor; ++i) angles.step(pairs);
    } else {
      angles.step(pairs);
    }
    for (Size d = 0; d < pairs; ++d) {
      cosine[d] = static_cast<A>(angles.cosine[d]), sine[d] = static_cast<A>(direction * angles.sine[d]);
    }
    for (Size b = 0; b < s.B; ++b) {
      const Size offset = (b * s.T + t) * s.row;
      for (Size h = 0; h < s.heads; ++h) {
        const T *const low = x_BTrow + offset + h * s.D + first_pair, *const high = low + s.D / 2;
        T *const to_low = y_BTrow + offset + h * s.D + first_pair, *const to_high = to_low + s.D / 2;
#pragma omp simd
        for (Size d = 0; d < pairs; ++d) {
          const A u = load(low[d]), v = load(high[d]);
          const A p = u * cosine[d] - v * sine[d], q = v * cosine[d] + u * sine[d];
          to_low[d] = store<T>(kAdd ? load(to_low[d]) + p : p);
          to_high[d] = store<T>(kAdd ? load(to_high[d]) + q : q);
        }
      }
      if (first_pair > 0 || (!kAdd && x_BTrow == y_BTrow)) continue;
      const T* const rest = x_BTrow + offset;
      T* const to_rest = y_BTrow + offset;
#pragma omp simd
      for (Size i = s.heads * s.D; i < s.row; ++i) {
        to_rest[i] = kAdd ? store<T>(load(to_rest[i]) + load(rest[i])) : rest[i];
      }
    }
  }
}

}  // namespace

template <>
void rope(CpuStream, const Rope& rope) {
  const Shape shape{rope.B, rope.T, rope.row, rope.heads, rope.D};
  const Size D = rope.D, first = rope.first;
  const double base = rope.base, direction = rope.inverse ? -1.0 : 1.0;
  dispatch_float(rope.dtype, [&]<class E>() {
    E* const y = static_cast<E*>(rope.y_BTrow);
    const E* const x = static_cast<const E*>(rope.x_BTrow);
    dispatch_flag(rope.accumulate, [&](auto flag) {
      parallel_for(rope.T, row_grain(rope.B * rope.row), [=](Size begin, Size end) LT_VECTOR_BODY {
        // The first group of pairs also handles the rest of a row: in place, that must happen only once.
        for (Size d = 0; d < D / 2; d += kPairs) {
          rotate<E, decltype(flag)::value>(y, x, shape, d, kPairs < D / 2 - d ? kPairs : D / 2 - d, base, first,
                                           direction, begin, end);
        }
      });
    });
  });
}

}  // namespace lt::kernels
