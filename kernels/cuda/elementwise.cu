// Copies, conversions, arithmetic with broadcasting and dropout on the GPU.
#include "kernels/elementwise.h"

#include <algorithm>

#include "kernels/cuda/map.cuh"
#include "libtrain/kernels/random.h"

namespace lt::kernels {
namespace {

// Offsets of one element of a strided space, from its row-major number.
struct Offsets {
  Size out = 0, a = 0, b = 0;
};
__device__ inline Offsets offsets_of(const Strided& s, Size index) {
  Offsets offsets;
  for (int d = s.dims - 1; d >= 0; --d) {
    const Size at = index % s.sizes[d];
    index /= s.sizes[d];
    offsets.out += at * s.out[d], offsets.a += at * s.a[d], offsets.b += at * s.b[d];
  }
  return offsets;
}

template <class F>
__global__ void strided_kernel(Strided space, Size N, F f) {
  for (Size i = thread_index(); i < N; i += thread_count()) f(offsets_of(space, i));
}

template <class F>
void for_each_element(CudaStream stream, const Strided& space, F f) {
  const Size N = space.elements();
  if (N == 0) return;
  strided_kernel<<<blocks_for(stream, N), kThreads, 0, stream_of(stream)>>>(space, N, f);
  check_launch("strided");
}

template <class T>
struct CopyElement {
  T* out;
  const T* a;
  __device__ void operator()(const Offsets& p) const { out[p.out] = a[p.a]; }
};
template <class T>
struct AddElement {
  T* out;
  const T* a;
  __device__ void operator()(const Offsets& p) const {
    if constexpr (std::is_same_v<T, std::int32_t>) {
      out[p.out] += a[p.a];
    } else {
      out[p.out] = store<T>(load(out[p.out]) + load(a[p.a]));
    }
  }
};
template <class T>
struct AddTwo {
  T* out;
  const T *a, *b;
  __device__ void operator()(const Offsets& p) const { out[p.out] = store<T>(load(a[p.a]) + load(b[p.b])); }
};
template <class T>
struct Product {
  T* out;
  const T *a, *b;
  bool accumulate;
  __device__ void operator()(const Offsets& p) const {
    const Arithmetic<T> product = load(a[p.a]) * load(b[p.b]);
    out[p.out] = store<T>(accumulate ? load(out[p.out]) + product : product);
  }
};

template <class T>
struct Difference {
  T* out;
  const T *a, *b;
  __device__ void operator()(const Offsets& p) const { out[p.out] = store<T>(load(a[p.a]) - load(b[p.b])); }
};
template <class T>
struct Quotient {
  T* out;
  const T *a, *b;
  __device__ void operator()(const Offsets& p) const { out[p.out] = store<T>(load(a[p.a]) / load(b[p.b])); }
};
template <class T>
struct QuotientShare {
  T* out;
  const T *a, *b;
  __device__ void operator()(const Offsets& p) const {
    const Arithmetic<T> divisor = load(b[p.b]);
    out[p.out] = store<T>(-(load(a[p.a]) / divisor) * (load(out[p.out]) / divisor));
  }
};
template <class T>
struct Larger {
  T* out;
  const T *a, *b;
  __device__ void operator()(const Offsets& p) const {
    out[p.out] = load(a[p.a]) > load(b[p.b]) || load(a[p.a]) != load(a[p.a]) ? a[p.a] : b[p.b];
  }
};
template <class T>
struct LargerShare {
  T* out;
  const T *a, *b;
  __device__ void operator()(const Offsets& p) const {
    using A = Arithmetic<T>;
    const A x = load(a[p.a]), y = load(b[p.b]);
    out[p.out] = store<T>(load(out[p.out]) * (x > y ? A(1) : x == y ? A(0.5) : A(0)));
  }
};

// b is null for a comparison with `number`.
template <class T>
struct Compare {
  Comparison comparison;
  std::int32_t* out;
  const T *a, *b;
  T number;
  __device__ void operator()(const Offsets& p) const {
    const T x = a[p.a], y = b != nullptr ? b[p.b] : number;
    if constexpr (std::is_same_v<T, std::int32_t>) {
      out[p.out] = comparison(x, y);
    } else {
      out[p.out] = comparison(load(x), load(y));
    }
  }
};

template <class A>
struct Constant {
  A value;
  __device__ A operator()() const { return value; }
};
template <class A>
struct Identity {
  __device__ A operator()(A x) const { return x; }
};
template <class A>
struct Times {
  A factor;
  __device__ A operator()(A x) const { return factor * x; }
};

template <class T>
void copy_elements(CudaStream stream, const Strided& space, void* out, const void* a) {
  for_each_element(stream, space, CopyElement<T>{static_cast<T*>(out), static_cast<const T*>(a)});
}
template <class T>
void add_elements(CudaStream stream, const Strided& space, void* out, const void* a) {
  for_each_element(stream, space, AddElement<T>{static_cast<T*>(out), static_cast<const T*>(a)});
}

template <class T>
__global__ void select_kernel(T* y_N, const std::int32_t* condition_N, const T* a_N, const T* b_N, Size N) {
  for (Size i = thread_index(); i < N; i += thread_count()) {
    const T* const from = condition_N[i] != 0 ? a_N : b_N;
    y_N[i] = from != nullptr ? from[i] : store<T>(0);
  }
}

// A thread takes kCounters counter values at a time, four elements each. With kWhole these elements lie within the
// array and form one aligned pack. With kAdd the result is added to y.
template <int kCounters, bool kWhole, bool kAdd, class T>
__global__ void dropout_kernel(T* y_N, const T* x_N, Size N, std::uint32_t least, Arithmetic<T> factor,
                               std::uint64_t key, FirstElement first_element) {
  const std::uint64_t first = first_element.number();
  using A = Arithmetic<T>;
  using P = Pack<T, 4 * kCounters>;
  const Size offset = static_cast<Size>(first % 4), steps = (offset + N + 4 * kCounters - 1) / (4 * kCounters);
  for (Size step = thread_index(); step < steps; step += thread_count()) {
    P x, y;
    const Size begin = 4 * kCounters * step - offset;  // offset in the arrays; negative if the first counter is cut
    if constexpr (kWhole) {
      x = *reinterpret_cast<const P*>(x_N + begin);
      if constexpr (kAdd) y = *reinterpret_cast<const P*>(y_N + begin);
    }
#pragma unroll
    for (int c = 0; c < kCounters; ++c) {
      const auto words = philox(key, first / 4 + static_cast<std::uint64_t>(step * kCounters + c));
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int at = 4 * c + k;
        const Size i = begin + at;
        if (!kWhole && (i < 0 || i >= N)) continue;
        T& element = kWhole ? y.values[at] : y_N[i];
        const A value = load(kWhole ? x.values[at] : x_N[i]), kept = words[k] >= least ? value * factor : A(0);
        element = store<T>(kAdd ? load(element) + kept : kept);
      }
    }
    if constexpr (kWhole) *reinterpret_cast<P*>(y_N + begin) = y;
  }
}

}  // namespace

template <>
void fill_zero(CudaStream stream, void* x, Size bytes) {
  if (bytes > 0) LT_CUDA(cudaMemsetAsync(x, 0, static_cast<std::size_t>(bytes), stream_of(stream)));
}

template <>
void fill(CudaStream stream, DType dtype, void* x_N, double value, Size N) {
  dispatch_float(dtype, [&]<class T>() {
    map(stream, static_cast<T*>(x_N), N, false, Constant<Arithmetic<T>>{static_cast<Arithmetic<T>>(value)});
  });
}

template <>
void copy_strided(CudaStream stream, DType dtype, const Strided& space, void* out, const void* a, bool accumulate) {
  if (accumulate) {
    if (dtype == DType::i32) return add_elements<std::int32_t>(stream, space, out, a);
    return dispatch_float(dtype, [&]<class T>() { add_elements<T>(stream, space, out, a); });
  }
  switch (dtype_bytes(dtype)) {
    case 1: return copy_elements<std::uint8_t>(stream, space, out, a);
    case 2: return copy_elements<std::uint16_t>(stream, space, out, a);
    case 4: return copy_elements<std::uint32_t>(stream, space, out, a);
    default: return copy_elements<std::uint64_t>(stream, space, out, a);
  }
}

template <>
void convert(CudaStream stream, DType y_dtype, void* y_N, DType x_dtype, const void* x_N, Size N, bool accumulate) {
  if (!is_floating(y_dtype) || !is_floating(x_dtype) || (y_dtype == x_dtype && !accumulate)) {
    if (y_dtype != x_dtype) {
      throw InternalError("kernels", "convert: expected the same dtype or two floating ones, found " +
                                         std::string(dtype_name(x_dtype)) + " to " + std::string(dtype_name(y_dtype)));
    }
    if (accumulate) return copy_strided(stream, y_dtype, {1, {N}, {1}, {1}, {}}, y_N, x_N, true);
    if (N > 0 && y_N != x_N) device::cuda::copy(y_N, x_N, N * dtype_bytes(y_dtype), stream);
    return;
  }
  dispatch_float(y_dtype, [&]<class Y>() {
    dispatch_float(x_dtype, [&]<class X>() {
      map(stream, static_cast<Y*>(y_N), N, accumulate, Identity<Arithmetic<X>>{}, static_cast<const X*>(x_N));
    });
  });
}

template <>
void add(CudaStream stream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  dispatch_float(dtype, [&]<class T>() {
    for_each_element(stream, space,
                     AddTwo<T>{static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b)});
  });
}

template <>
void mul(CudaStream stream, DType dtype, const Strided& space, void* out, const void* a, const void* b,
         bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    for_each_element(stream, space,
                     Product<T>{static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b), accumulate});
  });
}

template <>
void subtract(CudaStream stream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  dispatch_float(dtype, [&]<class T>() {
    for_each_element(stream, space,
                     Difference<T>{static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b)});
  });
}

template <>
void divide(CudaStream stream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  dispatch_float(dtype, [&]<class T>() {
    for_each_element(stream, space,
                     Quotient<T>{static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b)});
  });
}

template <>
void divide_backward(CudaStream stream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  dispatch_float(dtype, [&]<class T>() {
    for_each_element(stream, space,
                     QuotientShare<T>{static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b)});
  });
}

template <>
void maximum(CudaStream stream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  dispatch_float(dtype, [&]<class T>() {
    for_each_element(stream, space,
                     Larger<T>{static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b)});
  });
}

template <>
void maximum_backward(CudaStream stream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  dispatch_float(dtype, [&]<class T>() {
    for_each_element(stream, space,
                     LargerShare<T>{static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b)});
  });
}

template <>
void compare(CudaStream stream, const Comparison& comparison, DType dtype, const Strided& space, std::int32_t* out,
             const void* a, const void* b, double number) {
  const auto run = [&]<class T>(T element) {
    for_each_element(stream, space,
                     Compare<T>{comparison, out, static_cast<const T*>(a), static_cast<const T*>(b), element});
  };
  if (dtype == DType::i32) return run(static_cast<std::int32_t>(number));
  dispatch_float(dtype, [&]<class T>() { run(static_cast<T>(static_cast<Arithmetic<T>>(number))); });
}

template <>
void select(CudaStream stream, DType dtype, void* y_N, const std::int32_t* condition_N, const void* a_N,
            const void* b_N, Size N) {
  if (N == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    select_kernel<<<blocks_for(stream, N), kThreads, 0, stream_of(stream)>>>(
        static_cast<T*>(y_N), condition_N, static_cast<const T*>(a_N), static_cast<const T*>(b_N), N);
  });
  check_launch("select");
}

template <>
void scale(CudaStream stream, DType dtype, void* y_N, const void* x_N, double alpha, Size N, bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    const auto factor = static_cast<Arithmetic<T>>(alpha);
    map(stream, static_cast<T*>(y_N), N, accumulate, Times<Arithmetic<T>>{factor}, static_cast<const T*>(x_N));
  });
}

template <>
void dropout(CudaStream stream, const Dropout& k) {
  const Size N = k.N;
  if (N == 0) return;
  dispatch_float(k.dtype, [&]<class T>() {
    const Arithmetic<T> factor = Arithmetic<T>(1) / (Arithmetic<T>(1) - static_cast<Arithmetic<T>>(k.p));
    const std::uint32_t least = least_word(k.p);
    T* const y = static_cast<T*>(k.y_N);
    const T* const x = static_cast<const T*>(k.x_N);
    constexpr int kCounters = std::max(1, kPack<T> / 4);
    dispatch_flag(k.first.is_multiple_of(4) && N % (4 * kCounters) == 0 && aligned(y, x), [&](auto whole) {
      dispatch_flag(k.accumulate, [&](auto add) {
        constexpr int kOwn = whole.value ? kCounters : 1;
        dropout_kernel<kOwn, whole.value, add.value>
            <<<blocks_for(stream, N / (4 * kOwn) + 2), kThreads, 0, stream_of(stream)>>>(y, x, N, least, factor, k.key,
                                                                                         k.first);
      });
    });
  });
  check_launch("dropout");
}

}  // namespace lt::kernels
