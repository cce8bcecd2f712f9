// Quantization to e4m3 on CUDA, bit-equal to the CPU's, and products of what it makes.
#include "kernels/quantize.h"

#include <array>
#include <cmath>

#include "kernels/gemm.h"
#include "kernels/on_both.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

// Bytes, in an array of four-byte words.
int bytes_of(OnBoth& both, Size count) { return both.exact(both.array(DType::f32, count / 4)); }

Array rows_of_all_sizes(DType dtype, Size R, Size C, std::uint64_t key) {
  Array x = random_array(dtype, R * C, key);
  for (Size i = 0; i < R * C; ++i) x.set(i, std::ldexp(x[i], static_cast<int>(2 * (3 - i / C % 7))));
  return x;
}

}  // namespace

TEST_CASE("cuda: quantization has the CPU's bits", "[cuda]") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [R, C] :
         {std::pair<Size, Size>{16, 16}, {48, 144}, {272, 1600}, {128, 4096}, {16, 14336}, {32, 28672}, {2048, 128}}) {
      for (const bool is_bad : {false, true}) {
        CAPTURE(dtype_name(dtype), R, C, is_bad);
        OnBoth both;
        Array values = rows_of_all_sizes(dtype, R, C, 1);
        for (Size c = 0; c < C; ++c) values.set((R / 2) * C + c, 0);
        if (is_bad) values.set(3 * C + 5, HUGE_VAL);
        const int x = both.add(std::move(values)), y = bytes_of(both, R * C), again = bytes_of(both, R * C),
                  direct = bytes_of(both, R * C), scales = both.exact(both.array(DType::f32, R)),
                  largest = both.exact(both.array(DType::f32, C));
        both.run([&, R = R, C = C](auto s, auto at) {
          const auto bytes = [&](int index) { return static_cast<e4m3*>(at(index)); };
          const auto floats = [&](int index) { return static_cast<float*>(at(index)); };
          quantize_rows(s, bytes(y), floats(scales), dtype, at(x), R, C);
          spread_largest_scale(s, floats(largest), C, floats(scales), R);
          quantize_transposed(s, bytes(again), floats(largest), DType::e4m3, bytes(y), floats(scales), R, C);
          quantize_transposed(s, bytes(direct), floats(largest), dtype, at(x), nullptr, R, C);
        });
      }
    }
  }
}

TEST_CASE("cuda: matrix products in e4m3", "[cuda][cublas]") {
  if (!has_gpu()) return;
  for (const auto& [M, N, K] : {std::array<Size, 3>{16, 32, 48}, {256, 384, 1600}, {272, 144, 2048}}) {
    for (const bool one_scale : {false, true}) {
      for (const bool deterministic : {false, true}) {
        for (const DType out : {DType::bf16, DType::f32}) {
          CAPTURE(M, N, K, one_scale, deterministic, dtype_name(out));
          OnBoth both;
          const int a = both.add(rows_of_all_sizes(DType::bf16, M, K, 1)),
                    b = both.add(rows_of_all_sizes(DType::bf16, N, K, 2)), a8 = bytes_of(both, M * K),
                    b8 = bytes_of(both, N * K), a_scales = both.exact(both.array(DType::f32, M)),
                    b_scales = both.exact(both.array(DType::f32, N)), d = both.array(out, M * N),
                    plain = both.array(out, M * N), bias = both.array(DType::bf16, N), add = both.array(out, M * N);
          // Without one_scale, sums have 14 bits on the GPU.
          for (const int index : {d, plain}) both.by_row(index, one_scale ? M * N : N);
          both.run(
              [&, M = M, N = N, K = K](auto s, auto at) {
                const auto floats = [&](int index) { return static_cast<float*>(at(index)); };
                quantize_rows(s, static_cast<e4m3*>(at(a8)), floats(a_scales), DType::bf16, at(a), M, K);
                quantize_rows(s, static_cast<e4m3*>(at(b8)), floats(b_scales), DType::bf16, at(b), N, K);
                Gemm g{.M = M,
                       .N = N,
                       .K = K,
                       .a = at(a8),
                       .b = at(b8),
                       .d = at(plain),
                       .transpose_b = true,
                       .dtype = DType::e4m3,
                       .out = out};
                g.a_scales = floats(a_scales), g.b_scales = floats(b_scales), g.one_scale = one_scale;
                g.settings.deterministic = deterministic;
                gemm(s, g);
                g.d = at(d);
                if (out == DType::bf16) {
                  g.bias_N = at(bias), g.add_MN = at(add);
                } else {
                  g.accumulate = true;
                }
                gemm(s, g);
              },
              out == DType::f32 ? 100 : 2);
        }
      }
    }
  }
}
