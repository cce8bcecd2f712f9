// Quantization to e4m3, and matmuls of quantized matrices, compared with plain loops in f64.
#include "kernels/quantize.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/array.h"
#include "kernels/gemm.h"
#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

using namespace lt;
using namespace lt::kernels;
using test::Array;
using test::rows_of_all_sizes;

namespace {

struct Matrix {
  Size R, C;
  std::vector<e4m3> values;
  std::vector<float> scales;

  double operator()(Size r, Size c) const {
    const float scale = scales[scales.size() == 1 ? 0 : static_cast<std::size_t>(r)];
    return static_cast<double>(static_cast<float>(values[static_cast<std::size_t>(r * C + c)])) *
           static_cast<double>(scale);
  }
};

Matrix quantized(const Array& x, Size R, Size C) {
  Matrix y{R, C, std::vector<e4m3>(static_cast<std::size_t>(R * C)), std::vector<float>(static_cast<std::size_t>(R))};
  quantize_rows(CpuStream{}, y.values.data(), y.scales.data(), static_cast<const bf16*>(x.data()), R, C);
  return y;
}

Matrix transposed(DType dtype, const void* x, const Matrix& rows, const float* row_scales) {
  Matrix y{rows.C, rows.R, std::vector<e4m3>(rows.values.size()), std::vector<float>(1)};
  spread_largest_scales(CpuStream{}, std::vector<LargestScale>{{y.scales.data(), 1, rows.scales.data(), rows.R}});
  quantize_transposed(CpuStream{}, {y.values.data(), y.scales.data(), dtype, x, row_scales, rows.R, rows.C});
  return y;
}

}  // namespace

static_assert(e4m3_scale(448) == 1 && e4m3_scale(448.01f) == 2 && e4m3_scale(224) == 0.5f);
static_assert(e4m3_scale(256) == 1 && e4m3_scale(255) == 0x1p-0f && e4m3_scale(1) == 0x1p-8f);
static_assert(e4m3_scale(0) == 0x1p-126f && e4m3_scale(0x1p-149f) == 0x1p-126f);

TEST_CASE("quantize: the largest scales of some matrices at once, in as many copies as asked for", "[kernels]") {
  const std::vector<float> few = {1, 4, 0.5f}, with_nan = {1, std::numeric_limits<float>::quiet_NaN(), 8};
  std::vector<float> one(1), copies(5);
  std::vector<LargestScale> all = {{one.data(), 1, with_nan.data(), 3}, {copies.data(), 5, few.data(), 3}};
  spread_largest_scales(CpuStream{}, all);
  CHECK(std::isnan(one[0]));
  CHECK(copies == std::vector<float>(5, 4));
  spread_largest_scales(CpuStream{}, std::vector<LargestScale>());
  all.resize(4);
  CHECK_THROWS_WITH(spread_largest_scales(CpuStream{}, all),
                    "spread_largest_scales: expected at most 3 entries, got 4");
}

TEST_CASE("quantize: each row by the smallest power of two that holds it, rounded once", "[kernels]") {
  for (const auto& [R, C] : {std::pair<Size, Size>{1, 1}, {7, 33}, {64, 160}, {300, 65}}) {
    const Array x = rows_of_all_sizes(DType::bf16, R, C, 1);
    const Matrix y = quantized(x, R, C);
    for (Size r = 0; r < R; ++r) {
      const double scale = static_cast<double>(y.scales[static_cast<std::size_t>(r)]);
      double largest = 0;
      bool nearest = true;
      for (Size c = 0; c < C; ++c) {
        const double value = x[r * C + c];
        largest = std::max(largest, std::abs(value));
        // Half a unit in the last of 4 binary places, or of the subnormal numbers.
        const double unit = std::max(std::abs(value) / 16, scale * 0x1p-10);
        nearest = nearest && std::abs(y(r, c) - value) <= unit;
      }
      CHECK(nearest);
      CHECK(largest <= 448 * scale);
      CHECK(largest > 224 * scale);
      CHECK(std::exp2(std::round(std::log2(scale))) == scale);
    }
    // A transpose has the largest scale of the rows, and rounds what they hold only where it becomes subnormal.
    const Matrix again = transposed(DType::e4m3, y.values.data(), y, y.scales.data());
    const Matrix direct = transposed(DType::bf16, x.data(), y, y.scales.data());
    REQUIRE(again.scales[0] == *std::max_element(y.scales.begin(), y.scales.end()));
    REQUIRE(direct.scales == again.scales);
    CHECK(std::memcmp(direct.values.data(), again.values.data(), again.values.size()) == 0);
    bool equal = true;
    for (Size r = 0; r < R; ++r) {
      for (Size c = 0; c < C; ++c) {
        const double unit = static_cast<double>(again.scales[0]) * 0x1p-10;
        equal = equal && (std::abs(again(c, r) - y(r, c)) <= unit);
        if (std::abs(y(r, c)) >= 16 * unit) equal = equal && again(c, r) == y(r, c);
      }
    }
    CHECK(equal);
  }
}

TEST_CASE("quantize: a matrix in stretches has the bits of a whole one", "[kernels]") {
  const Size R = 7, C = 48, P = 4;
  const std::vector<Size> cuts = {0, 16, 16, 224, R * C};  // within rows, none, over several rows
  for (const bool is_bad : {false, true}) {
    Array x = rows_of_all_sizes(DType::bf16, R, C, 1);
    if (is_bad) x.set(2 * C + 5, HUGE_VAL), x.set(5 * C + 40, std::nan(""));
    const Matrix whole = quantized(x, R, C);
    const auto stretch = [&](std::size_t p, e4m3* y, float* rows) {
      return MatrixStretch{cuts[p], cuts[p + 1], C, static_cast<const bf16*>(x.data()) + cuts[p], y, rows};
    };
    const Size W = R + 3;
    std::vector<std::uint32_t> parts(static_cast<std::size_t>(P * W)), rest(3);
    for (std::size_t p = 0; p < static_cast<std::size_t>(P); ++p) {
      std::vector<float> largest(static_cast<std::size_t>(R));
      largest_of_rows(CpuStream{}, std::array{stretch(p, nullptr, largest.data())});
      std::memcpy(parts.data() + p * static_cast<std::size_t>(W), largest.data(), largest.size() * 4);
    }
    parts[static_cast<std::size_t>(1 * W + R)] = 0xffff0001u, parts[static_cast<std::size_t>(3 * W + R + 2)] = 7;
    Matrix y{R, C, std::vector<e4m3>(whole.values.size()), std::vector<float>(whole.scales.size())};
    join_scales(CpuStream{}, {parts.data(), P, W, R, y.scales.data(), rest.data()});
    CHECK(std::memcmp(y.scales.data(), whole.scales.data(), whole.scales.size() * 4) == 0);
    CHECK(rest == std::vector<std::uint32_t>{0xffff0001u, 0, 7});
    std::vector<MatrixStretch> stretches;
    for (std::size_t p = 0; p < static_cast<std::size_t>(P); ++p) {
      stretches.push_back(stretch(p, y.values.data() + cuts[p], y.scales.data()));
    }
    quantize_stretches(CpuStream{}, stretches);
    quantize_stretches(CpuStream{}, {});
    CHECK(std::memcmp(y.values.data(), whole.values.data(), whole.values.size()) == 0);
  }
}

TEST_CASE("quantize: a transpose with the sums over rows", "[kernels]") {
  const Size R = 150, C = 70;
  const Matrix x = quantized(rows_of_all_sizes(DType::bf16, R, C, 1), R, C);
  Matrix y = transposed(DType::e4m3, x.values.data(), x, x.scales.data());
  const std::vector<e4m3> without = y.values;
  std::vector<float> sums(static_cast<std::size_t>(C), 5.0f);
  for (const bool accumulate : {false, true}) {
    quantize_transposed(CpuStream{}, {y.values.data(), y.scales.data(), DType::e4m3, x.values.data(), x.scales.data(),
                                      R, C, sums.data(), accumulate});
    double worst = 0, largest = 0;
    for (Size c = 0; c < C; ++c) {
      double expected = 0;
      for (Size r = 0; r < R; ++r) expected += (accumulate ? 2 : 1) * x(r, c);
      worst = lt_test::worst_of(worst, std::abs(static_cast<double>(sums[static_cast<std::size_t>(c)]) - expected));
      largest = std::max(largest, std::abs(expected));
    }
    CHECK(worst <= test::tolerance(DType::f32) * largest);
    CHECK(std::memcmp(y.values.data(), without.data(), without.size()) == 0);
  }
}

TEST_CASE("quantize: infinity and NaN reach their row's scale, and a transpose's", "[kernels]") {
  for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    Array x = Array::random(DType::bf16, 4 * 32, 1);
    x.set(40, bad);
    const Matrix y = quantized(x, 4, 32);
    CHECK(std::isnan(y.scales[1]));
    CHECK_FALSE(std::isnan(y.scales[0]));
    CHECK(std::isnan(transposed(DType::e4m3, y.values.data(), y, y.scales.data()).scales[0]));
  }
  const Matrix zeros = quantized(Array(DType::bf16, 32), 2, 16);  // do not raise the scale of a transpose
  CHECK(zeros.scales[0] == 0x1p-126f);
  CHECK(zeros(1, 3) == 0);
}

TEST_CASE("gemm in e4m3: scales of rows, and one for all", "[kernels]") {
  for (const auto& [M, N, K] : {std::array<Size, 3>{16, 32, 48}, {33, 20, 65}, {96, 64, 256}}) {
    for (const bool one_scale : {false, true}) {
      const Array a_values = rows_of_all_sizes(DType::bf16, M, K, 1, 2),
                  b_values = rows_of_all_sizes(DType::bf16, N, K, 2, 2);
      Matrix a = quantized(a_values, M, K), b = quantized(b_values, N, K);
      if (one_scale) a.scales.resize(1), b.scales.resize(1);
      for (const DType out : {DType::bf16, DType::f32}) {
        CAPTURE(M, N, K, one_scale, dtype_name(out));
        const Array bias = Array::random(DType::bf16, N, 3), add = Array::random(out, M * N, 4);
        Array d = Array::random(out, M * N, 5);
        std::vector<double> expected = d.values();
        Gemm g{.M = M,
               .N = N,
               .K = K,
               .a = a.values.data(),
               .b = b.values.data(),
               .d = d.data(),
               .transpose_b = true,
               .dtype = DType::e4m3,
               .out = out};
        g.a_scales = a.scales.data(), g.b_scales = b.scales.data(), g.one_scale = one_scale;
        if (out == DType::bf16) {
          g.bias_N = bias.data(), g.add_MN = add.data();
        } else {
          g.accumulate = true;
        }
        double largest = 1;
        for (Size i = 0; i < M * N; ++i) {
          double sum = out == DType::bf16 ? bias[i % N] + add[i] : expected[static_cast<std::size_t>(i)];
          for (Size k = 0; k < K; ++k) sum += a(i / N, k) * b(i % N, k);
          expected[static_cast<std::size_t>(i)] = sum, largest = std::max(largest, std::abs(sum));
        }
        gemm(CpuStream{}, g);
        double worst = 0;
        for (Size i = 0; i < M * N; ++i)
          worst = lt_test::worst_of(worst, std::abs(d[i] - expected[static_cast<std::size_t>(i)]));
        CHECK(worst <= test::tolerance(out) * largest);
      }
    }
  }
  Array d(DType::bf16, 256);
  CHECK_THROWS_AS(gemm(CpuStream{}, Gemm{.M = 16, .N = 16, .K = 16, .d = d.data(), .dtype = DType::e4m3}),
                  InternalError);
}
