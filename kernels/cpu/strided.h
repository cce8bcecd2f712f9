// Loops over a strided index space as few, long rows, split over the team at any element.
#pragma once

#include <utility>

#include "kernels/cpu/map.h"
#include "kernels/elementwise.h"

namespace lt::kernels {

// Returns the same space with the fewest dimensions: drops sizes of 1, puts the output's smallest stride last, and
// merges neighbours if all three arrays allow it. At least one dimension remains.
inline Strided simplify(const Strided& space) {
  Strided s;
  const auto at = [](auto& array, int i) -> auto& { return array[static_cast<std::size_t>(i)]; };
  for (int i = 0; i < space.dims; ++i) {
    if (at(space.sizes, i) == 1) continue;
    int to = s.dims++;
    for (; to > 0 && at(s.out, to - 1) < at(space.out, i); --to) {
      at(s.sizes, to) = at(s.sizes, to - 1), at(s.out, to) = at(s.out, to - 1);
      at(s.a, to) = at(s.a, to - 1), at(s.b, to) = at(s.b, to - 1);
    }
    at(s.sizes, to) = at(space.sizes, i), at(s.out, to) = at(space.out, i);
    at(s.a, to) = at(space.a, i), at(s.b, to) = at(space.b, i);
  }
  if (s.dims == 0) {
    s.dims = 1, s.sizes[0] = 1, s.out[0] = s.a[0] = s.b[0] = 1;
    return s;
  }
  int last = 0;
  for (int i = 1; i < s.dims; ++i) {
    const Size n = at(s.sizes, i);
    const bool joins =
        at(s.out, last) == at(s.out, i) * n && at(s.a, last) == at(s.a, i) * n && at(s.b, last) == at(s.b, i) * n;
    if (!joins) ++last;
    at(s.sizes, last) = joins ? at(s.sizes, last) * n : n;
    at(s.out, last) = at(s.out, i), at(s.a, last) = at(s.a, i), at(s.b, last) = at(s.b, i);
  }
  s.dims = last + 1;
  return s;
}

// Calls row(out, a, b, n) for each run of n elements along the last dimension of a simplified space; out, a and b are
// the offsets of its first element. `row` is a lambda marked LT_VECTOR_BODY.
template <class F>
void for_each_row(const Strided& space, F row) {
  parallel_for(space.elements(), kGrain, [=](Size begin, Size end) LT_VECTOR_BODY {
    const std::size_t last = static_cast<std::size_t>(space.dims - 1);
    const Size length = space.sizes[last];
    std::array<Size, kMaxDims> index{};
    Size out = 0, a = 0, b = 0, rest = begin / length, j = begin % length;
    for (std::size_t d = last; d-- > 0;) {
      index[d] = rest % space.sizes[d], rest /= space.sizes[d];
      out += index[d] * space.out[d], a += index[d] * space.a[d], b += index[d] * space.b[d];
    }
    for (Size i = begin; i < end;) {
      const Size n = length - j < end - i ? length - j : end - i;
      row(out + j * space.out[last], a + j * space.a[last], b + j * space.b[last], n);
      i += n, j = 0;
      for (std::size_t d = last; d-- > 0;) {
        out += space.out[d], a += space.a[d], b += space.b[d];
        if (++index[d] < space.sizes[d]) break;
        index[d] = 0;
        out -= space.out[d] * space.sizes[d], a -= space.a[d] * space.sizes[d], b -= space.b[d] * space.sizes[d];
      }
    }
  });
}

}  // namespace lt::kernels
