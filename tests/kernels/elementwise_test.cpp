// Element-wise kernels against f64 references, and dropout's mask against the generator.
#include "kernels/elementwise.h"

#include <omp.h>
#include <functional>

#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

constexpr Size kSizes[] = {1, 5, 16, 63, 1000, 40001};

double gelu_reference(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double silu_reference(double x) { return x / (1 + std::exp(-x)); }
double slope(double (*f)(double), double x) {
  const double h = 1e-3;  // fourth order, so about 1e-12
  return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h);
}

// The expected values of y (+)= f(i).
std::vector<double> expected_of(const Array& y, bool accumulate, const std::function<double(Size)>& f) {
  std::vector<double> e = y.values();
  for (std::size_t i = 0; i < e.size(); ++i) e[i] = (accumulate ? e[i] : 0) + f(static_cast<Size>(i));
  return e;
}

}  // namespace

TEST_CASE("fill_zero clears exactly the bytes given", "[kernels]") {
  for (const Size n : {Size(1), Size(77), Size(3'000'001)}) {
    std::vector<char> bytes(static_cast<std::size_t>(n) + 1, 'x');
    fill_zero(CpuStream{}, bytes.data(), n);
    CHECK(std::count(bytes.begin(), bytes.end(), '\0') == n);
    CHECK(bytes.back() == 'x');
  }
}

TEST_CASE("convert between all floating types", "[kernels]") {
  for (const DType from : kFloats) {
    for (const DType to : kFloats) {
      for (const Size n : kSizes) {
        for (const bool accumulate : {false, true}) {
          const Array x = random_array(from, n, 1, 8);
          Array y = random_array(to, n, 2, 8);
          const auto expected = expected_of(y, accumulate, [&](Size i) { return x[i]; });
          convert(CpuStream{}, to, y.data(), from, x.data(), n, accumulate);
          INFO(dtype_name(from) << " to " << dtype_name(to) << " n " << n << " accumulate " << accumulate);
          CHECK(error_of(y, expected) <= (to == DType::bf16  ? 0x1p-8
                                          : to == DType::f16 ? 0x1p-11
                                          : to == DType::f32 ? 0x1p-23
                                                             : 0x1p-52));
          if (!accumulate && to == DType::bf16 && from == DType::f32) {
            Size wrong = 0;  // rounding to nearest even, to the bit
            for (Size i = 0; i < n; ++i) wrong += y[i] != static_cast<double>(bf16(static_cast<float>(x[i])));
            CHECK(wrong == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("convert copies i32 and refuses i32 to floating", "[kernels]") {
  const std::vector<std::int32_t> x{100, 30, -40};
  std::vector<std::int32_t> y{1, 1, 1};
  convert(CpuStream{}, DType::i32, y.data(), DType::i32, x.data(), 3, true);
  CHECK(y == std::vector<std::int32_t>{101, 31, -39});
  convert(CpuStream{}, DType::i32, y.data(), DType::i32, x.data(), 3, false);
  CHECK(y == x);
  CHECK_THROWS_AS(convert(CpuStream{}, DType::f32, y.data(), DType::i32, x.data(), 3, false), InternalError);
}

namespace {

// Calls f(out offset, a offset, b offset) for every index.
void walk(const Strided& s, const std::function<void(Size, Size, Size)>& f, int d = 0, Size o = 0, Size a = 0,
          Size b = 0) {
  if (d == s.dims) return f(o, a, b);
  const std::size_t u = static_cast<std::size_t>(d);
  for (Size i = 0; i < s.sizes[u]; ++i) walk(s, f, d + 1, o + i * s.out[u], a + i * s.a[u], b + i * s.b[u]);
}

struct ElementwiseCase {
  const char* name;
  Strided space;
  Size out, a, b;  // elements of the arrays
};

const ElementwiseCase kCases[] = {
    {"scalar", {.dims = 0}, 1, 1, 1},
    {"contiguous", {.dims = 2, .sizes = {7, 11}, .out = {11, 1}, .a = {11, 1}, .b = {11, 1}}, 77, 77, 77},
    {"large", {.dims = 1, .sizes = {50001}, .out = {1}, .a = {1}, .b = {1}}, 50001, 50001, 50001},
    {"bias", {.dims = 2, .sizes = {301, 129}, .out = {129, 1}, .a = {129, 1}, .b = {0, 1}}, 301 * 129, 301 * 129, 129},
    {"column",
     {.dims = 2, .sizes = {301, 129}, .out = {129, 1}, .a = {129, 1}, .b = {1, 0}},
     301 * 129,
     301 * 129,
     301},
    {"column first", {.dims = 2, .sizes = {9, 5}, .out = {5, 1}, .a = {1, 0}, .b = {5, 1}}, 45, 9, 45},
    {"transposed",
     {.dims = 2, .sizes = {200, 170}, .out = {170, 1}, .a = {1, 200}, .b = {1, 200}},
     34000,
     34000,
     34000},
    {"permuted",
     {.dims = 3, .sizes = {3, 70, 45}, .out = {3150, 45, 1}, .a = {70, 1, 210}, .b = {0, 0, 1}},
     9450,
     9450,
     45},
    {"out transposed", {.dims = 2, .sizes = {13, 6}, .out = {1, 13}, .a = {6, 1}, .b = {6, 1}}, 78, 78, 78},
    {"heads",
     {.dims = 4, .sizes = {2, 3, 1, 5}, .out = {15, 5, 5, 1}, .a = {15, 5, 1, 1}, .b = {0, 5, 0, 1}},
     30,
     30,
     15},
    {"gaps", {.dims = 3, .sizes = {4, 3, 6}, .out = {40, 10, 1}, .a = {36, 12, 2}, .b = {0, 0, 0}}, 160, 144, 1},
};

}  // namespace

TEST_CASE("strided copy, add, subtract and mul", "[kernels]") {
  for (const ElementwiseCase& c : kCases) {
    for (const DType dtype : kFloats) {
      for (const bool accumulate : {false, true}) {
        INFO(c.name << " " << dtype_name(dtype) << " accumulate " << accumulate);
        const Array a = random_array(dtype, c.a, 1), b = random_array(dtype, c.b, 2);
        const Array before = random_array(dtype, c.out, 3);
        auto expected = [&](const std::function<double(double, double)>& f, bool add) {
          std::vector<double> e = before.values();
          walk(c.space,
               [&](Size o, Size i, Size j) { e[static_cast<std::size_t>(o)] = (add ? before[o] : 0) + f(a[i], b[j]); });
          return e;
        };
        Array out = copy_of(before);
        Strided copy = c.space;
        copy.b = {};
        copy_strided(CpuStream{}, dtype, copy, out.data(), a.data(), accumulate);
        CHECK(error_of(out, expected([](double x, double) { return x; }, accumulate)) <= tolerance(dtype));
        out = copy_of(before);
        mul(CpuStream{}, dtype, c.space, out.data(), a.data(), b.data(), accumulate);
        CHECK(error_of(out, expected([](double x, double y) { return x * y; }, accumulate)) <= tolerance(dtype));
        if (accumulate) continue;
        out = copy_of(before);
        add(CpuStream{}, dtype, c.space, out.data(), a.data(), b.data());
        CHECK(error_of(out, expected([](double x, double y) { return x + y; }, false)) <= tolerance(dtype));
        out = copy_of(before);
        subtract(CpuStream{}, dtype, c.space, out.data(), a.data(), b.data());
        CHECK(error_of(out, expected([](double x, double y) { return x - y; }, false)) <= tolerance(dtype));
      }
    }
  }
}

TEST_CASE("strided copy moves any element size and adds i32", "[kernels]") {
  const Strided transposed{.dims = 2, .sizes = {3, 2}, .out = {2, 1}, .a = {1, 3}};
  const std::uint8_t bytes[6] = {0, 1, 2, 3, 4, 255};
  std::uint8_t moved[6] = {};
  copy_strided(CpuStream{}, DType::u8, transposed, moved, bytes, false);
  CHECK(std::vector<int>(moved, moved + 6) == std::vector<int>{0, 3, 1, 4, 2, 255});
  const std::int32_t ids[6] = {0, 1, 2, 3, 4, -5};
  std::int32_t sums[6] = {10, 10, 10, 10, 10, 10};
  copy_strided(CpuStream{}, DType::i32, transposed, sums, ids, true);
  CHECK(std::vector<int>(sums, sums + 6) == std::vector<int>{10, 13, 11, 14, 12, 5});
}

TEST_CASE("scale, GELU and SiLU with their gradients", "[kernels]") {
  const CpuStream s;
  for (const DType dtype : kFloats) {
    for (const Size n : kSizes) {
      const Array x = random_array(dtype, n, 1, 6), dy = random_array(dtype, n, 2);
      for (const bool accumulate : {false, true}) {
        INFO(dtype_name(dtype) << " n " << n << " accumulate " << accumulate);
        const auto check = [&](const std::function<void(void*)>& kernel, const std::function<double(Size)>& f) {
          Array y = random_array(dtype, n, 3);
          const auto expected = expected_of(y, accumulate, f);
          kernel(y.data());
          // Central differences have an error of about 1e-12.
          CHECK(error_of(y, expected) <= std::max(tolerance(dtype), 5e-11));
        };
        check([&](void* y) { scale(s, dtype, y, x.data(), -1.25, n, accumulate); },
              [&](Size i) { return -1.25 * x[i]; });
        check([&](void* y) { gelu_backward(s, dtype, y, dy.data(), x.data(), n, accumulate); },
              [&](Size i) { return dy[i] * slope(gelu_reference, x[i]); });
        check([&](void* y) { silu_backward(s, dtype, y, dy.data(), x.data(), n, accumulate); },
              [&](Size i) { return dy[i] * slope(silu_reference, x[i]); });
        if (accumulate) continue;
        check([&](void* y) { gelu_forward(s, dtype, y, x.data(), n); }, [&](Size i) { return gelu_reference(x[i]); });
        check([&](void* y) { silu_forward(s, dtype, y, x.data(), n); }, [&](Size i) { return silu_reference(x[i]); });
      }
      Array in_place = copy_of(dy), apart(dtype, n);
      gelu_backward(s, dtype, apart.data(), dy.data(), x.data(), n, false);
      gelu_backward(s, dtype, in_place.data(), in_place.data(), x.data(), n, false);
      CHECK(in_place.same_bits(apart));
    }
  }
}

TEST_CASE("SwiGLU with its gradient", "[kernels]") {
  const CpuStream s;
  for (const DType dtype : kFloats) {
    for (auto [R, F] : {std::pair<Size, Size>{1, 1}, {3, 17}, {65, 352}}) {
      const Array x = random_array(dtype, R * 2 * F, 1, 4), dy = random_array(dtype, R * F, 2);
      const auto gate = [&, F = F](Size i) { return i / F * 2 * F + i % F; };
      Array y(dtype, R * F);
      swiglu_forward(s, dtype, y.data(), x.data(), R, F);
      CHECK(error_of(y, expected_of(y, false, [&, F = F](Size i) {
                       return silu_reference(x[gate(i)]) * x[gate(i) + F];
                     })) <= tolerance(dtype));
      for (const bool accumulate : {false, true}) {
        Array dx = random_array(dtype, R * 2 * F, 3);
        const auto expected = expected_of(dx, accumulate, [&, F = F](Size i) {
          const Size r = i / (2 * F), f = i % (2 * F) % F;
          const double d = dy[r * F + f];
          return i % (2 * F) < F ? d * x[i + F] * slope(silu_reference, x[i]) : d * silu_reference(x[i - F]);
        });
        swiglu_backward(s, dtype, dx.data(), dy.data(), x.data(), R, F, accumulate);
        CHECK(error_of(dx, expected) <= std::max(tolerance(dtype), 5e-11));
      }
    }
  }
}

TEST_CASE("activations carry NaN and reach their limits", "[kernels]") {
  Array x(DType::f32, 40), y(DType::f32, 40), dy(DType::f32, 40);
  for (Size i = 0; i < 40; ++i) x.set(i, i % 2 ? 80 : -80), dy.set(i, 1);
  x.set(20, std::nan("")), x.set(39, -std::nan(""));
  for (const auto forward : {gelu_forward<CpuStream>, silu_forward<CpuStream>}) {
    forward(CpuStream{}, DType::f32, y.data(), x.data(), 40);
    for (Size i = 0; i < 40; ++i) {
      if (i == 20 || i == 39) {
        CHECK(std::isnan(y[i]));
      } else {
        CHECK(std::abs(y[i] - (i % 2 ? 80 : 0)) < 1e-30);
      }
    }
  }
  for (const auto backward : {gelu_backward<CpuStream>, silu_backward<CpuStream>}) {
    backward(CpuStream{}, DType::f32, y.data(), dy.data(), x.data(), 40, false);
    for (Size i = 0; i < 40; ++i) {
      if (i == 20 || i == 39) {
        CHECK(std::isnan(y[i]));
      } else {
        CHECK(std::abs(y[i] - static_cast<double>(i % 2)) < 1e-30);
      }
    }
  }
}

TEST_CASE("GELU's derivative of huge numbers, whose squares overflow, is 0 or 1", "[kernels]") {
  const double huge[] = {-65, -1e12, -1e15, -1e20, -2e19, -3e38, 65, 1e12, 2e19, 3e38, -1e200, 1e200, std::nan("")};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const double x_of_all : huge) {
      if (dtype != DType::f64 && std::abs(x_of_all) > 1e100) continue;
      CAPTURE(dtype_name(dtype), x_of_all);
      const Array x(dtype, 40, x_of_all), dy(dtype, 40, 1);  // both the vector loop and its remainder
      Array dx(dtype, 40, 99);
      gelu_backward(CpuStream{}, dtype, dx.data(), dy.data(), x.data(), 40, false);
      for (Size i = 0; i < 40; ++i) {
        CHECK((std::isnan(x_of_all) ? std::isnan(dx[i]) : std::abs(dx[i] - (x_of_all > 0 ? 1 : 0)) < 1e-30));
      }
    }
  }
}

TEST_CASE("dropout keeps by the key's stream, wherever a range begins", "[kernels]") {
  const float p = 0.3f;
  const std::uint64_t key = derive_key(7, "dropout");
  for (const DType dtype : kFloats) {
    for (const Size n : kSizes) {
      for (const std::uint64_t first : {std::uint64_t(0), std::uint64_t(3), (std::uint64_t(1) << 34) + 1}) {
        for (const bool accumulate : {false, true}) {
          const Array x = random_array(dtype, n, 1);
          Array y = random_array(dtype, n, 2);
          const auto expected = expected_of(y, accumulate, [&](Size i) {
            const bool kept = uniform_from(philox_word(key, first + static_cast<std::uint64_t>(i))) >= p;
            return kept ? x[i] / (1.0 - static_cast<double>(p)) : 0.0;
          });
          dropout(CpuStream{}, {dtype, n, y.data(), x.data(), p, key, {first}, accumulate});
          CHECK(error_of(y, expected) <= tolerance(dtype));
          Array numbered = random_array(dtype, n, 2);
          const std::uint64_t samples = first / 7;
          dropout(CpuStream{}, {dtype, n, numbered.data(), x.data(), p, key, {first % 7, &samples, 7}, accumulate});
          CHECK(error_of(numbered, expected) <= tolerance(dtype));
        }
      }
    }
  }
  Array ones(DType::f32, 100000);
  for (Size i = 0; i < ones.count(); ++i) ones.set(i, 1);
  dropout(CpuStream{}, {DType::f32, ones.count(), ones.data(), ones.data(), p, key, {0}, false});
  double mean = 0;
  for (Size i = 0; i < ones.count(); ++i) mean += ones[i] / static_cast<double>(ones.count());
  CHECK(std::abs(mean - 1) < 0.01);  // standard deviation 0.002
}

TEST_CASE("element-wise kernels give the same bits at every number of threads", "[kernels]") {
  const Size n = 70003;
  const Array x = random_array(DType::f32, n, 1, 4), dy = random_array(DType::f32, n, 2);
  const int threads = omp_get_max_threads();
  std::vector<Array> results;
  for (const int count : {1, 3}) {
    omp_set_num_threads(count);
    Array y(DType::f32, 4 * n);
    gelu_forward(CpuStream{}, DType::f32, pointer<float>(y), x.data(), n);
    gelu_backward(CpuStream{}, DType::f32, pointer<float>(y) + n, dy.data(), x.data(), n, false);
    silu_backward(CpuStream{}, DType::f32, pointer<float>(y) + 2 * n, dy.data(), x.data(), n, false);
    dropout(CpuStream{}, {DType::f32, n, pointer<float>(y) + 3 * n, x.data(), 0.1f, 5, {3}, false});
    results.push_back(std::move(y));
  }
  omp_set_num_threads(threads);
  CHECK(results[0].same_bits(results[1]));
}
