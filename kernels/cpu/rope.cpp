// Rotary position embedding on the CPU. The angles of a position are computed once for all sequences and heads. They
// depend only on the position: the standard library computes the nearest multiple of kAnchor below it, and single steps
// of the angle addition formula, in double, lead from there to the position.
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

  void start(Size first_pair, Size pairs, const Rope& rope) {
    for (Size d = 0; d < pairs; ++d) {
      rate[d] = rope.scaling.scaled(
          std::pow(rope.base, -2.0 * static_cast<double>(first_pair + d) / static_cast<double>(rope.D)));
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

// Rotates pairs [first_pair, first_pair + pairs) of every head of the tokens [begin, end) of `sequences` sequences from
// first_sequence on. They have the same positions.
template <class T, bool kAdd>
LT_INLINE void rotate(const Rope& s, Size first_pair, Size pairs, Size first_sequence, Size sequences, Size begin,
                      Size end) {
  using A = Arithmetic<T>;
  T* const y_BTrow = static_cast<T*>(s.y_BTrow);
  const T* const x_BTrow = static_cast<const T*>(s.x_BTrow);
  const Size first = s.first;
  const std::int32_t* const starts_T = s.starts_BT == nullptr ? nullptr : s.starts_BT + first_sequence * s.T;
  const double direction = s.inverse ? -1.0 : 1.0;
  Angles angles;
  angles.start(first_pair, pairs, s);
  A cosine[kPairs], sine[kPairs];
  for (Size t = begin; t < end; ++t) {
    const Size position = starts_T == nullptr ? first + t : t - starts_T[t];  // 0, an anchor, where a document begins
    if (t == begin || position % kAnchor == 0) {
      angles.anchor(position - position % kAnchor, pairs);
      for (Size i = 0; i < position % kAnchor; ++i) angles.step(pairs);
    } else {
      angles.step(pairs);
    }
    for (Size d = 0; d < pairs; ++d) {
      cosine[d] = static_cast<A>(angles.cosine[d]), sine[d] = static_cast<A>(direction * angles.sine[d]);
    }
    for (Size b = first_sequence; b < first_sequence + sequences; ++b) {
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
  dispatch_float(rope.dtype, [&]<class E>() {
    dispatch_flag(rope.accumulate, [&](auto flag) {
      parallel_for(rope.T, row_grain(rope.B * rope.row), [=](Size begin, Size end) LT_VECTOR_BODY {
        // The first group of pairs also handles the rest of a row: in place, that must happen only once.
        const Size half = rope.D / 2, together = rope.starts_BT == nullptr ? rope.B : 1;
        for (Size b = 0; b < rope.B; b += together) {
          for (Size d = 0; d < half; d += kPairs) {
            rotate<E, decltype(flag)::value>(rope, d, kPairs < half - d ? kPairs : half - d, b, together, begin, end);
          }
        }
      });
    });
  });
}

}  // namespace lt::kernels
