// Matmuls on CUDA with all epilogues, compared with the CPU.
#include <array>

#include "kernels/gemm.h"
#include "kernels/on_both.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

// The second half of each sum subtracts what the first half adds, except b's first number. Partial sums are integers
// that two bytes cannot hold, and the total is one that they can, so a bit differs only if a partial sum was rounded.
void check_exact_sums(DType dtype, Size M, Size N, Size K) {
  CAPTURE(M, N, K, dtype_name(dtype));
  const auto mirrored = [K](Size i) { return static_cast<std::size_t>(i % K < K / 2 ? i : i - K / 2); };
  const auto numbers_a = random_ids(M * K, 127, 1), numbers_b = random_ids(N * K, 127, 2);
  Array a(dtype, M * K), b(dtype, N * K);
  for (Size i = 0; i < M * K; ++i) a.set(i, numbers_a[mirrored(i)] + (i % K == 0 ? 1 : 0));
  for (Size i = 0; i < N * K; ++i) b.set(i, (i % K < K / 2 ? 1 : -1) * (1 + numbers_b[mirrored(i)]));
  OnBoth both;
  const int at_a = both.add(std::move(a)), at_b = both.add(std::move(b)), d = both.exact(both.array(dtype, M * N)),
            dx = both.exact(both.array(dtype, M * N)),
            input = both.constant(dtype, M * N, 10);  // the gradient of GELU is 1 there
  both.run([&](auto s, auto at) {
    Gemm g{.M = M, .N = N, .K = K, .a = at(at_a), .b = at(at_b), .d = at(d), .transpose_b = true};
    g.dtype = g.out = dtype;
    gemm(s, g);
    g.gelu_gradient_of_MN = at(input), g.d = at(dx);
    gemm(s, g);
  });
}

}  // namespace

TEST_CASE("cuda: a factor of a matmul, in batches", "[cuda][cublas]") {
  for_floats([](DType dtype) {
    for (const bool pinned : {false, true}) {
      for (const Size batch : {1, 3}) {
        const Size M = 96, N = 128, K = 64;
        CAPTURE(batch, pinned, dtype_name(dtype));
        OnBoth both;
        const int a = both.array(dtype, batch * M * K), b = both.array(dtype, batch * N * K),
                  d = both.array(dtype, batch * M * N);
        both.run(
            [&](auto s, auto at) {
              Gemm g{.M = M, .N = N, .K = K, .a = at(a), .b = at(b), .d = at(d), .transpose_b = true};
              g.dtype = g.out = dtype;
              g.alpha = 0.7, g.pinned = pinned;
              g.batch = batch, g.stride_a = M * K, g.stride_b = N * K, g.stride_d = M * N;
              gemm(s, g);
            },
            3);
      }
    }
  });
}

TEST_CASE("cuda: matmuls with GELU, in the matmul and as a pass of its own", "[cuda][cublas]") {
  for_floats([](DType dtype) {
    for (const auto& [M, N, K] : {std::array<Size, 3>{64, 96, 128}, {257, 384, 72}, {31, 17, 5}, {512, 1024, 256}}) {
      for (const bool bias : {false, true}) {
        for (const int call : {0, 1}) {  // the first call of a shape ends with the matmul that has GELU
          CAPTURE(M, N, K, bias, call, dtype_name(dtype));
          OnBoth both;
          const int a = both.array(dtype, M * K), b = both.array(dtype, N * K), d = both.array(dtype, M * N),
                    pre = both.array(dtype, M * N), dx = both.array(dtype, M * N), n = both.array(dtype, N),
                    input = both.array(dtype, M * N, 3);
          both.run([&, M = M, N = N, K = K](auto s, auto at) {
            Gemm g{.M = M, .N = N, .K = K, .a = at(a), .b = at(b), .d = at(d), .transpose_b = true};
            g.dtype = g.out = dtype;
            g.gelu_input_MN = at(pre);
            if (bias) g.bias_N = at(n);
            gemm(s, g);
            g.gelu_input_MN = nullptr, g.bias_N = nullptr, g.gelu_gradient_of_MN = at(input), g.d = at(dx);
            gemm(s, g);
          });
        }
      }
    }
  });
}

TEST_CASE("cuda: a weight's gradient with the bias's beside it", "[cuda][cublas]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const auto& [M, N, K] : {std::array<Size, 3>{96, 64, 128}, {384, 256, 72}, {31, 17, 5}, {256, 512, 2048}}) {
      for (const bool accumulate : {true, false}) {
        for (const int call : {0, 1}) {
          CAPTURE(M, N, K, accumulate, call, dtype_name(dtype));
          OnBoth both;
          // Every few matmuls, tensor cores cut off low bits of the running sum (Fasi et al. 2021; for H100: Khattak
          // and Mikaitis 2025). That error is proportional to the sum, but the tolerance is for 1 + the result, which
          // may be near 0. So long sums are kept small.
          const double range = K > 1024 ? 0.5 : 1;
          const int dy = both.array(dtype, K * M, range), x = both.array(dtype, K * N, range),
                    dw = both.array(sums, M * N), db = both.array(sums, M);
          both.run([&, M = M, N = N, K = K](auto s, auto at) {
            Gemm g{.M = M, .N = N, .K = K, .a = at(dy), .b = at(x), .d = at(dw), .transpose_a = true, .dtype = dtype};
            g.out = sums, g.accumulate = accumulate, g.sum_a_M = at(db);
            gemm(s, g);
          });
        }
      }
    }
  });
}

// Whether a sum is split varies, as algorithms are chosen by their time. With this many shapes, some are.
TEST_CASE("cuda: matmuls keep the parts of a sum in f32", "[cuda][cublas]") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (Size M = 16; M <= 128; M += 16) {
      for (Size N = 32; N <= 128; N += 16) {
        for (const Size K : {128, 192, 256}) check_exact_sums(dtype, M, N, K);
      }
    }
  }
}

TEST_CASE("cuda: matmuls of f32 round to TF32 where that is asked for, and only there", "[cuda][cublas]") {
  if (!has_gpu()) return;
  const Size M = 64, N = 96, K = 128;
  const Array a = random_array(DType::f32, M * K, 1), b = random_array(DType::f32, K * N, 2);
  Array expected(DType::f32, M * N);
  gemm(CpuStream{}, Gemm{.M = M, .N = N, .K = K, .a = a.data(), .b = b.data(), .d = expected.data()});
  DeviceArray a_there(a), b_there(b);
  const auto error = [&](bool rounded) {
    const Array d =
        gpu_matmul({.M = M, .N = N, .K = K, .a = a_there.data(), .b = b_there.data(), .settings = {.tf32 = rounded}});
    return error_of(d, expected.values());
  };
  const double tf32 = 4 * tolerance(DType::f16);  // the same mantissa; two factors are rounded, the sum is not
  CHECK(error(false) <= 2 * tolerance(DType::f32));
  CHECK(error(true) > 2 * tolerance(DType::f32));
  CHECK(error(true) <= tf32);
}

TEST_CASE("cuda: matmuls", "[cuda][cublas]") {
  struct Case {
    Size M, N, K;
    bool ta, tb, accumulate, bias, add;
    Size batch;
  };
  constexpr Case kCases[] = {
      {1, 1, 1, false, false, false, false, false, 1},      {3, 5, 7, false, true, false, true, false, 1},
      {64, 96, 128, false, true, false, true, true, 1},     {64, 96, 128, true, false, true, false, false, 1},
      {65, 33, 17, false, false, true, true, true, 1},      {128, 256, 512, false, true, false, false, true, 1},
      {31, 16, 40, true, true, false, false, false, 4},     {16, 24, 0, false, false, false, true, true, 1},
      {257, 384, 128, false, false, false, true, false, 1}, {64, 64, 32, false, true, false, false, true, 3},
      {31, 16, 40, false, false, true, true, true, 2}};
  for_floats([&](DType dtype) {
    for (const Case& c : kCases) {
      for (const DType out : {dtype, kernels::gradient_dtype(dtype)}) {
        CAPTURE(c.M, c.N, c.K, c.ta, c.tb, c.accumulate, c.bias, c.add, c.batch, dtype_name(dtype), dtype_name(out));
        OnBoth both;
        const int a = both.array(dtype, c.batch * c.M * c.K), b = both.array(dtype, c.batch * c.K * c.N),
                  d = both.array(out, c.batch * c.M * c.N), bias = both.array(dtype, c.N),
                  add = both.array(out, c.M * c.N);
        both.run([&](auto s, auto at) {
          Gemm g{.M = c.M, .N = c.N, .K = c.K, .a = at(a), .b = at(b), .d = at(d)};
          g.transpose_a = c.ta, g.transpose_b = c.tb, g.accumulate = c.accumulate;
          g.dtype = dtype, g.out = out;
          if (c.bias) g.bias_N = at(bias);
          if (c.add) g.add_MN = at(add);
          g.batch = c.batch;
          if (c.batch > 1) g.stride_a = c.M * c.K, g.stride_b = c.K * c.N, g.stride_d = c.M * c.N;
          gemm(s, g);
        });
      }
    }
  });
}
