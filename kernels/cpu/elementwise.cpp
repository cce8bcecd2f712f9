// Copies, conversions and arithmetic with broadcasting on the CPU. Each output element depends only on its own
// inputs, so the bits do not depend on the number of threads.
#include "kernels/elementwise.h"

#include <cstring>

#include "kernels/cpu/strided.h"

namespace lt::kernels {
namespace {

// Transposing copy: dimension `d` is contiguous in a, the last in out. Square tiles use whole cache lines of both.
template <class T>
void copy_tiles(const Strided& s, std::size_t d, T* out, const T* a) {
  constexpr Size kTile = 64 / static_cast<Size>(sizeof(T));
  const std::size_t last = static_cast<std::size_t>(s.dims - 1);
  const Size I = s.sizes[d], J = s.sizes[last], tiles = (I + kTile - 1) / kTile;
  Strided outer = s;  // the outer dimensions: d counts tiles, the last has size 1
  outer.sizes[d] = tiles, outer.sizes[last] = 1;
  parallel_for(outer.elements(), kGrain / (kTile * J) + 1, [=](Size begin, Size end) LT_VECTOR_BODY {
    for (Size item = begin; item < end; ++item) {
      Size rest = item, to = 0, from = 0, i0 = 0;
      for (std::size_t k = last; k-- > 0;) {
        const Size index = rest % outer.sizes[k] * (k == d ? kTile : 1);
        rest /= outer.sizes[k];
        to += index * s.out[k], from += index * s.a[k];
        if (k == d) i0 = index;
      }
      const Size rows = kTile < I - i0 ? kTile : I - i0, row_out = s.out[d], column_a = s.a[last];
      for (Size j0 = 0; j0 < J; j0 += kTile) {
        const Size columns = kTile < J - j0 ? kTile : J - j0;
        for (Size i = 0; i < rows; ++i) {
          T* const y = out + to + i * row_out + j0;
          const T* const x = a + from + i + j0 * column_a;
          for (Size j = 0; j < columns; ++j) y[j] = x[j * column_a];
        }
      }
    }
  });
}

template <class T>
void copy_rows(const Strided& s, T* out, const T* a) {
  const std::size_t last = static_cast<std::size_t>(s.dims - 1);
  const Size so = s.out[last], sa = s.a[last];
  for (std::size_t d = 0; d < last && so == 1 && sa != 1; ++d) {
    if (s.a[d] == 1) return copy_tiles(s, d, out, a);
  }
  for_each_row(s, [=](Size o, Size i, Size, Size n) LT_VECTOR_BODY {
    T* const y = out + o;
    const T* const x = a + i;
    if (so == 1 && sa == 1) {
#pragma omp simd
      for (Size k = 0; k < n; ++k) y[k] = x[k];
    } else {
      for (Size k = 0; k < n; ++k) y[k * so] = x[k * sa];
    }
  });
}

// The rows that no instruction set computes faster: compiled once, not for each of them.
template <class Y, class T, class F>
[[gnu::noinline]] void strided_row(Size n, Y* y, Size so, const T* p, Size sa, const T* q, Size sb, F value) {
  for (Size k = 0; k < n; ++k) y[k * so] = value(y[k * so], p[k * sa], q[k * sb]);
}

// out = f(out, a, b).
template <bool kSymmetric = true, class Y, class T, class F>
void binary_rows(Strided s, Y* out, const T* a, const T* b, F f) {
  const std::size_t last = static_cast<std::size_t>(s.dims - 1);
  if (kSymmetric && s.a[last] == 0 && s.b[last] != 0) std::swap(s.a, s.b), std::swap(a, b);
  const Size so = s.out[last], sa = s.a[last], sb = s.b[last];
  for_each_row(s, [=](Size o, Size i, Size j, Size n) LT_VECTOR_BODY {
    Y* const y = out + o;
    const T *const p = a + i, *const q = b + j;
    const F value = f;
    if (so == 1 && sa == 1 && sb == 1) {
#pragma omp simd
      for (Size k = 0; k < n; ++k) y[k] = value(y[k], p[k], q[k]);
    } else if (so == 1 && sa == 1 && sb == 0) {
      const T scalar = *q;
#pragma omp simd
      for (Size k = 0; k < n; ++k) y[k] = value(y[k], p[k], scalar);
    } else {
      strided_row(n, y, so, p, sa, q, sb, value);
    }
  });
}

// The type in which numbers stored as T are compared.
template <class T>
using Compared = std::conditional_t<std::is_same_v<T, std::int32_t>, T, Arithmetic<T>>;

template <class T>
void add_to_rows(const Strided& s, T* out, const T* a) {
  // With b = a the walk is the same; b is unused.
  Strided both = s;
  both.b = both.a;
  binary_rows(both, out, a, a, [](T y, T x, T) LT_VECTOR_BODY {
    if constexpr (std::is_same_v<T, std::int32_t>) {
      return static_cast<T>(static_cast<std::uint32_t>(y) + static_cast<std::uint32_t>(x));
    } else {
      return store<T>(load(y) + load(x));
    }
  });
}

}  // namespace

template <>
void fill_zero(CpuStream, void* x, Size bytes) {
  char* const data = static_cast<char*>(x);
  parallel_for(bytes, 1 << 18, [=](Size begin, Size end) LT_VECTOR_BODY {
    std::memset(data + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

template <>
void fill(CpuStream, DType dtype, void* x_N, double value, Size N) {
  dispatch_float(dtype, [&]<class T>() {
    const T element = store<T>(static_cast<Arithmetic<T>>(value));
    map(static_cast<T*>(x_N), N, false, [=](Size) LT_VECTOR_BODY { return load(element); });
  });
}

template <>
void copy_strided(CpuStream, DType dtype, const Strided& space, void* out, const void* a, bool accumulate) {
  const Strided s = simplify(space);
  if (accumulate) {
    if (dtype == DType::i32)
      return add_to_rows(s, static_cast<std::int32_t*>(out), static_cast<const std::int32_t*>(a));
    return dispatch_float(dtype, [&]<class T>() { add_to_rows(s, static_cast<T*>(out), static_cast<const T*>(a)); });
  }
  switch (dtype_bytes(dtype)) {
    case 1: return copy_rows(s, static_cast<std::uint8_t*>(out), static_cast<const std::uint8_t*>(a));
    case 2: return copy_rows(s, static_cast<std::uint16_t*>(out), static_cast<const std::uint16_t*>(a));
    case 4: return copy_rows(s, static_cast<std::uint32_t*>(out), static_cast<const std::uint32_t*>(a));
    default: return copy_rows(s, static_cast<std::uint64_t*>(out), static_cast<const std::uint64_t*>(a));
  }
}

template <>
void convert(CpuStream, DType y_dtype, void* y_N, DType x_dtype, const void* x_N, Size N, bool accumulate) {
  if (y_dtype == DType::i32 || x_dtype == DType::i32 || (y_dtype == x_dtype && !accumulate)) {
    if (y_dtype != x_dtype) {
      throw InternalError("kernels", "convert: expected i32 to i32, found " + std::string(dtype_name(x_dtype)) +
                                         " to " + std::string(dtype_name(y_dtype)));
    }
    Strided flat{.dims = 1, .sizes = {N}, .out = {1}, .a = {1}};
    if (y_N != x_N || accumulate) copy_strided(CpuStream{}, y_dtype, flat, y_N, x_N, accumulate);
    return;
  }
  dispatch_float(y_dtype, [&]<class Y>() {
    dispatch_float(x_dtype, [&]<class X>() {
      const X* x = static_cast<const X*>(x_N);
      map(static_cast<Y*>(y_N), N, accumulate, [=](Size i) LT_VECTOR_BODY { return load(x[i]); });
    });
  });
}

template <>
void add(CpuStream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  const Strided s = simplify(space);
  dispatch_float(dtype, [&]<class T>() {
    binary_rows(s, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b),
                [](T, T x, T y) LT_VECTOR_BODY { return store<T>(load(x) + load(y)); });
  });
}

template <>
void mul(CpuStream, DType dtype, const Strided& space, void* out, const void* a, const void* b, bool accumulate) {
  const Strided s = simplify(space);
  dispatch_float(dtype, [&]<class T>() {
    dispatch_flag(accumulate, [&](auto flag) {
      binary_rows(s, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b),
                  [=](T o, T x, T y) LT_VECTOR_BODY {
                    if constexpr (flag) {
                      return store<T>(load(o) + load(x) * load(y));
                    } else {
                      return store<T>(load(x) * load(y));
                    }
                  });
    });
  });
}

template <>
void subtract(CpuStream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  const Strided s = simplify(space);
  dispatch_float(dtype, [&]<class T>() {
    binary_rows<false>(s, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b),
                       [](T, T x, T y) LT_VECTOR_BODY { return store<T>(load(x) - load(y)); });
  });
}

template <>
void divide(CpuStream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  const Strided s = simplify(space);
  dispatch_float(dtype, [&]<class T>() {
    binary_rows<false>(s, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b),
                       [](T, T x, T y) LT_VECTOR_BODY { return store<T>(load(x) / load(y)); });
  });
}

template <>
void divide_backward(CpuStream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  const Strided s = simplify(space);
  dispatch_float(dtype, [&]<class T>() {
    binary_rows<false>(s, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b),
                       [](T o, T x, T y) LT_VECTOR_BODY {
                         const Arithmetic<T> divisor = load(y);
                         return store<T>(-(load(x) / divisor) * (load(o) / divisor));
                       });
  });
}

template <>
void maximum(CpuStream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  const Strided s = simplify(space);
  dispatch_float(dtype, [&]<class T>() {
    binary_rows<false>(s, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b),
                       [](T, T x, T y) LT_VECTOR_BODY { return load(x) > load(y) || load(x) != load(x) ? x : y; });
  });
}

template <>
void maximum_backward(CpuStream, DType dtype, const Strided& space, void* out, const void* a, const void* b) {
  const Strided s = simplify(space);
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    binary_rows<false>(s, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b),
                       [](T o, T x, T y) LT_VECTOR_BODY {
                         const A share = load(x) > load(y) ? A(1) : load(x) == load(y) ? A(0.5) : A(0);
                         return store<T>(load(o) * share);
                       });
  });
}

template <>
void compare(CpuStream, const Comparison& comparison, DType dtype, const Strided& space, std::int32_t* out,
             const void* a, const void* b, double number) {
  const auto run = [&]<class T>() {
    const T element = static_cast<T>(static_cast<Compared<T>>(number));
    Strided s = space;
    if (b == nullptr) s.b.fill(0);
    binary_rows<false>(simplify(s), out, static_cast<const T*>(a), b != nullptr ? static_cast<const T*>(b) : &element,
                       [comparison](std::int32_t, T x, T y) LT_VECTOR_BODY {
                         return comparison(static_cast<Compared<T>>(x), static_cast<Compared<T>>(y));
                       });
  };
  if (dtype == DType::i32) return run.template operator()<std::int32_t>();
  dispatch_float(dtype, run);
}

template <>
void select(CpuStream, DType dtype, void* y_N, const std::int32_t* condition_N, const void* a_N, const void* b_N,
            Size N) {
  dispatch_float(dtype, [&]<class T>() {
    using A = Arithmetic<T>;
    const T *const a = static_cast<const T*>(a_N), *const b = static_cast<const T*>(b_N);
    map(static_cast<T*>(y_N), N, false, [=](Size i) LT_VECTOR_BODY {
      const T* const from = condition_N[i] != 0 ? a : b;
      return from != nullptr ? load(from[i]) : A(0);
    });
  });
}

template <>
void scale(CpuStream, DType dtype, void* y_N, const void* x_N, double alpha, Size N, bool accumulate) {
  dispatch_float(dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(x_N);
    const Arithmetic<T> factor = static_cast<Arithmetic<T>>(alpha);
    map(static_cast<T*>(y_N), N, accumulate, [=](Size i) LT_VECTOR_BODY { return factor * load(x[i]); });
  });
}

}  // namespace lt::kernels
