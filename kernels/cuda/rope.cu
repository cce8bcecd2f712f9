// Rotary position embedding on the GPU, with angles in double.
#include "kernels/rope.h"

#include <algorithm>

#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

constexpr Size kMostTokens = 8;       // per block
constexpr Size kBlockChannels = 256;  // of one head over all tokens of a block, if it has several; fastest on H200

struct Shape {
  Size B, T, row, heads, D;
  Size tokens;  // per block
  double base;
  RopeScaling scaling;
  Size first;
  double direction;
  const std::int32_t* starts_BT;
};

// A block takes s.tokens positions of some sequences. It computes their angles in shared memory, once for all sequences
// and heads, or, with documents, for each sequence. A thread rotates kCount neighbouring pairs at a time.
template <class T, int kCount, bool kAdd, bool kDocuments>
__global__ void rope_kernel(T* y_BTrow, const T* x_BTrow, Shape s) {
  using A = Arithmetic<T>;
  using P = Pack<T, kCount>;
  extern __shared__ double angles[];  // [s.tokens, D/2] cosines, then sines
  const Size half = s.D / 2, begin = static_cast<Size>(blockIdx.x) * s.tokens;
  const Size tokens = begin + s.tokens < s.T ? s.tokens : s.T - begin;
  A *const cosines = reinterpret_cast<A*>(angles), *const sines = cosines + s.tokens * half;
  const auto compute_angles = [&](Size b) {
    for (Size i = threadIdx.x; i < tokens * half; i += blockDim.x) {
      const double rate =
          s.scaling.scaled(pow(s.base, -2.0 * static_cast<double>(i % half) / static_cast<double>(s.D)));
      const Size t = begin + i / half, position = kDocuments ? t - s.starts_BT[b * s.T + t] : s.first + t;
      double c, n;
      sincos(static_cast<double>(position) * rate, &n, &c);
      cosines[i] = static_cast<A>(c), sines[i] = static_cast<A>(s.direction * n);
    }
    __syncthreads();
  };
  if constexpr (!kDocuments) compute_angles(0);
  const int packs = static_cast<int>(half / kCount), of_token = static_cast<int>(s.heads) * packs;
  const int all = static_cast<int>(tokens) * of_token;
  for (Size b = blockIdx.y; b < s.B; b += gridDim.y) {
    if constexpr (kDocuments) {
      __syncthreads();  // the angles of the sequence before are no longer read
      compute_angles(b);
    }
    const T* const x = x_BTrow + (b * s.T + begin) * s.row;
    T* const y = y_BTrow + (b * s.T + begin) * s.row;
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) {
      const int t = i / of_token, at = i % of_token, head = at / packs, d = at % packs * kCount;
      const Size low = t * s.row + head * s.D + d, high = low + half;
      const P u = *reinterpret_cast<const P*>(x + low), v = *reinterpret_cast<const P*>(x + high);
      P p{}, q{};
      if (kAdd) p = *reinterpret_cast<const P*>(y + low), q = *reinterpret_cast<const P*>(y + high);
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        const A cosine = cosines[t * half + d + k], sine = sines[t * half + d + k];
        const A turned_low = load(u.values[k]) * cosine - load(v.values[k]) * sine;
        const A turned_high = load(v.values[k]) * cosine + load(u.values[k]) * sine;
        p.values[k] = store<T>(kAdd ? load(p.values[k]) + turned_low : turned_low);
        q.values[k] = store<T>(kAdd ? load(q.values[k]) + turned_high : turned_high);
      }
      *reinterpret_cast<P*>(y + low) = p;
      *reinterpret_cast<P*>(y + high) = q;
    }
    if (!kAdd && x == y) continue;
    const Size turned = s.heads * s.D, rest = s.row - turned;
    for (Size i = threadIdx.x; i < tokens * rest; i += blockDim.x) {
      const Size at = i / rest * s.row + turned + i % rest;
      y[at] = kAdd ? store<T>(load(y[at]) + load(x[at])) : x[at];
    }
  }
}

}  // namespace

template <>
void rope(CudaStream stream, const Rope& rope) {
  const Size B = rope.B, T = rope.T, D = rope.D;
  if (B * T * rope.row == 0) return;
  dispatch_float(rope.dtype, [&]<class E>() {
    E* const y = static_cast<E*>(rope.y_BTrow);
    const E* const x = static_cast<const E*>(rope.x_BTrow);
    const Size tokens = std::clamp<Size>(kBlockChannels / std::max<Size>(1, D), 1, kMostTokens);
    const bool whole_packs = D / 2 % kPack<E> == 0 && D % 2 == 0 && rope.row % kPack<E> == 0 && aligned(y, x);
    dispatch_flag(whole_packs, [&](auto whole) {
      dispatch_flag(rope.accumulate, [&](auto add) {
        const dim3 grid(static_cast<unsigned>((T + tokens - 1) / tokens), static_cast<unsigned>(B < 64 ? B : 64));
        const std::size_t shared = static_cast<std::size_t>(tokens * D) * sizeof(Arithmetic<E>);
        const Shape shape{B,
                          T,
                          rope.row,
                          rope.heads,
                          D,
                          tokens,
                          rope.base,
                          rope.scaling,
                          rope.first,
                          rope.inverse ? -1.0 : 1.0,
                          rope.starts_BT};
        dispatch_flag(rope.starts_BT != nullptr, [&](auto documents) {
          rope_kernel<E, whole.value ? kPack<E> : 1, add.value, documents.value>
              <<<grid, kThreads, shared, stream_of(stream)>>>(y, x, shape);
        });
      });
    });
  });
  check_launch("rope");
}

}  // namespace lt::kernels
