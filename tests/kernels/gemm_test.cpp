// gemm() against the plain triple loop in f64, over dtypes, shapes, layouts and epilogues, for both back ends.
#include "kernels/gemm.h"

#include "kernels/array.h"
#include "kernels/cpu/gemm_loops.h"
#include "kernels/tolerance.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using kernels::Gemm;
using test::Array;

namespace {

struct GemmCase {
  Size M, N, K;
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false, add = false;
  Size pad = 0;  // elements between the rows of a, b and d
  Size batch = 1;
  double alpha = 1;
};

// The operands of a case.
struct Problem {
  GemmCase c;
  Gemm g;
  Array a, b, bias, add, d;

  Problem(const GemmCase& c, DType dtype, DType out, Size offset = 0)
      : c(c),
        g{.M = c.M, .N = c.N, .K = c.K},
        a(Array::random(dtype, c.batch * (c.transpose_a ? c.K : c.M) * ((c.transpose_a ? c.M : c.K) + c.pad), 1,
                        offset)),
        b(Array::random(dtype, c.batch * (c.transpose_b ? c.N : c.K) * ((c.transpose_b ? c.K : c.N) + c.pad), 2,
                        offset)),
        bias(Array::random(dtype, c.N, 3)),
        add(Array::random(out, c.M * c.N, 4, offset)),
        d(Array::random(out, c.batch * c.M * (c.N + c.pad), 5, offset)) {
    g.a = a.data(), g.b = b.data(), g.d = d.data();
    g.dtype = dtype, g.out = out;
    g.transpose_a = c.transpose_a, g.transpose_b = c.transpose_b, g.accumulate = c.accumulate;
    if (c.bias) g.bias_N = bias.data();
    if (c.add) g.add_MN = add.data();
    const Size lda = (c.transpose_a ? c.M : c.K) + c.pad, ldb = (c.transpose_b ? c.K : c.N) + c.pad, ldd = c.N + c.pad;
    if (c.pad) g.lda = lda, g.ldb = ldb, g.ldd = ldd;
    g.alpha = c.alpha;
    g.batch = c.batch;
    if (c.batch > 1)
      g.stride_a = a.count() / c.batch, g.stride_b = b.count() / c.batch, g.stride_d = d.count() / c.batch;
  }

  // The expected d; call it before the matmul.
  std::vector<double> expected() const {
    const Size lda = (c.transpose_a ? c.M : c.K) + c.pad, ldb = (c.transpose_b ? c.K : c.N) + c.pad, ldd = c.N + c.pad;
    std::vector<double> result = d.values();
    for (Size item = 0; item < c.batch; ++item) {
      for (Size m = 0; m < c.M; ++m) {
        for (Size n = 0; n < c.N; ++n) {
          double& out_mn = result[static_cast<std::size_t>(item * g.stride_d + m * ldd + n)];
          double sum = c.accumulate ? out_mn : 0;
          for (Size k = 0; k < c.K; ++k) {
            sum += a[item * g.stride_a + (c.transpose_a ? k * lda + m : m * lda + k)] *
                   b[item * g.stride_b + (c.transpose_b ? n * ldb + k : k * ldb + n)];
          }
          out_mn = c.alpha * sum + (c.bias ? bias[n] : 0) + (c.add ? add[m * c.N + n] : 0);
        }
      }
    }
    return result;
  }
};

void check(const GemmCase& c, DType dtype, DType out) {
  CAPTURE(c.M, c.N, c.K, c.transpose_a, c.transpose_b, c.accumulate, c.bias, c.add, c.pad, c.batch, dtype_name(dtype),
          dtype_name(out));
  Problem chosen(c, dtype, out);
  const std::vector<double> expected = chosen.expected();
  kernels::gemm(CpuStream{}, chosen.g);
  const bool has_factor = c.alpha != 1;  // the result is then rounded twice
  CHECK(test::error_of(chosen.d, expected) <= (has_factor ? 3 : 1) * test::tolerance(out));
  if (has_factor) return;
  Problem loops(c, dtype, out);
  kernels::gemm_loops(loops.g);
  CHECK(test::error_of(loops.d, expected) <= test::tolerance(out));
}

void check(const GemmCase& c) {
  for (const DType dtype : test::kFloats) check(c, dtype, dtype);
  for (const DType dtype : {DType::bf16, DType::f16}) check(c, dtype, DType::f32);
}

}  // namespace

TEST_CASE("gemm: shapes, layouts and epilogues agree with f64", "[kernels]") {
  const Size shapes[][3] = {{1, 1, 1},   {1, 5, 3},    {7, 1, 5},     {3, 2, 1},      {1, 256, 128},
                            {17, 33, 9}, {64, 64, 64}, {65, 129, 70}, {130, 96, 257}, {3, 200, 600}};
  for (const auto& [M, N, K] : shapes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        check({M, N, K, ta, tb});
        check({M, N, K, ta, tb, true});
        check({M, N, K, ta, tb, false, true, true});
      }
    }
    check({.M = M, .N = N, .K = K, .transpose_b = true, .bias = true});
    check({.M = M, .N = N, .K = K, .transpose_b = true, .add = true});
    check({.M = M, .N = N, .K = K, .transpose_b = true, .accumulate = true, .bias = true, .add = true});
  }
}

TEST_CASE("gemm: rows that are longer than they are wide", "[kernels]") {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      check({.M = 19, .N = 35, .K = 21, .transpose_a = ta, .transpose_b = tb, .pad = 13});
      check({.M = 19,
             .N = 35,
             .K = 21,
             .transpose_a = ta,
             .transpose_b = tb,
             .accumulate = true,
             .bias = true,
             .add = true,
             .pad = 13});
    }
  }
}

TEST_CASE("gemm: the gradient of a weight, a long sum that the threads share", "[kernels]") {
  for (const Size K : {Size{257}, Size{1023}, Size{2048}}) {
    for (const bool accumulate : {false, true}) {
      check({.M = 33, .N = 20, .K = K, .transpose_a = true, .accumulate = accumulate});
      check({.M = 33, .N = 20, .K = K, .transpose_a = true, .accumulate = accumulate, .pad = 3});
    }
  }
}

TEST_CASE("gemm: a factor of the matmul", "[kernels]") {
  for (const bool tb : {false, true}) {
    for (const Size batch : {1, 3}) {
      check({.M = 33, .N = 20, .K = 41, .transpose_b = tb, .batch = batch, .alpha = 0.7});
    }
  }
}

TEST_CASE("gemm: a factor beside anything that is added is refused", "[kernels]") {
  Problem p({.M = 4, .N = 5, .K = 6, .bias = true, .alpha = 2}, DType::f32, DType::f32);
  CHECK_THROWS_AS(kernels::gemm(CpuStream{}, p.g), InternalError);
  p.g.bias_N = nullptr, p.g.accumulate = true;
  CHECK_THROWS_AS(kernels::gemm(CpuStream{}, p.g), InternalError);
  p.g.accumulate = false, p.g.gelu_input_MN = p.add.data();
  CHECK_THROWS_AS(kernels::gemm(CpuStream{}, p.g), InternalError);
}

TEST_CASE("gemm: batches, with own and with shared operands", "[kernels]") {
  for (const bool tb : {false, true}) {
    check({.M = 9, .N = 17, .K = 12, .transpose_b = tb, .batch = 5});
    check({.M = 9, .N = 17, .K = 12, .transpose_b = tb, .accumulate = true, .bias = true, .add = true, .batch = 5});
  }
  for (const DType dtype : test::kFloats) {
    Problem p({.M = 9, .N = 17, .K = 12, .batch = 3}, dtype, dtype);
    p.g.stride_b = 0;
    kernels::gemm(CpuStream{}, p.g);
    Array shared(dtype, 9 * 17);
    Gemm one = p.g;
    one.batch = 1, one.d = shared.data();
    for (Size item = 0; item < 3; ++item) {
      one.a = static_cast<const std::byte*>(p.g.a) + item * p.g.stride_a * dtype_bytes(dtype);
      kernels::gemm(CpuStream{}, one);
      std::vector<double> expected = shared.values();
      Array found(dtype, shared.count());
      for (Size i = 0; i < found.count(); ++i) found.set(i, p.d[item * p.g.stride_d + i]);
      CHECK(test::error_of(found, expected) <= test::tolerance(dtype));
    }
  }
}

TEST_CASE("gemm: without matmuls only the epilogue is left, without elements nothing", "[kernels]") {
  for (const DType dtype : test::kFloats) {
    check({.M = 4, .N = 6, .K = 0, .accumulate = true, .bias = true, .add = true}, dtype, dtype);
    check({.M = 4, .N = 6, .K = 0}, dtype, dtype);
    Problem p({.M = 4, .N = 6, .K = 3}, dtype, dtype);
    const Array before = Array::random(dtype, p.d.count(), 5);
    p.g.M = 0;
    kernels::gemm(CpuStream{}, p.g);
    p.g.M = 4, p.g.N = 0;
    kernels::gemm(CpuStream{}, p.g);
    CHECK(p.d.same_bits(before));
  }
}

TEST_CASE("gemm: bits depend neither on addresses nor on what ran before", "[kernels]") {
  const GemmCase cases[] = {{.M = 256, .N = 384, .K = 128, .transpose_b = true, .bias = true},
                            {.M = 256, .N = 128, .K = 384},
                            {.M = 384, .N = 128, .K = 2048, .transpose_a = true, .accumulate = true},
                            {.M = 250, .N = 131, .K = 515, .transpose_a = true},
                            {.M = 33, .N = 65, .K = 130, .transpose_b = true, .bias = true, .add = true}};
  for (const DType dtype : test::kFloats) {
    std::vector<Array> first;
    for (const GemmCase& c : cases) {
      Problem p(c, dtype, dtype);
      kernels::gemm(CpuStream{}, p.g);
      first.push_back(std::move(p.d));
    }
    for (const Size offset : {64, 192, 4032}) {
      for (std::size_t i = std::size(cases); i-- > 0;) {
        Problem p(cases[i], dtype, dtype, offset);
        kernels::gemm(CpuStream{}, p.g);
        CAPTURE(i, offset, dtype_name(dtype));
        CHECK(p.d.same_bits(first[i]));
      }
    }
  }
}

TEST_CASE("gemm: an output of another dtype than documented is an error", "[kernels]") {
  Problem p({.M = 2, .N = 2, .K = 2}, DType::f32, DType::bf16);
  CHECK_THROWS_WITH(kernels::gemm(CpuStream{}, p.g), Catch::Matchers::ContainsSubstring("found bf16"));
}
