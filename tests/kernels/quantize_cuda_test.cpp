// Quantization to e4m3 on CUDA, bit-equal to the CPU, and matmuls of quantized matrices.
#include "kernels/quantize.h"

#include <array>
#include <cmath>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/on_both.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

// Bytes, in an array of four-byte words.
int bytes_of(OnBoth& both, Size count) { return both.exact(both.array(DType::f32, count / 4)); }

}  // namespace

TEST_CASE("cuda: quantization has the CPU's bits", "[cuda]") {
  if (!has_gpu()) return;
  for (const auto& [R, C] :
       {std::pair<Size, Size>{16, 16}, {48, 144}, {272, 1600}, {128, 4096}, {16, 14336}, {32, 28672}, {2048, 128}}) {
    for (const bool is_bad : {false, true}) {
      CAPTURE(R, C, is_bad);
      OnBoth both;
      Array values = rows_of_all_sizes(DType::bf16, R, C, 1);
      for (Size c = 0; c < C; ++c) values.set((R / 2) * C + c, 0);
      if (is_bad) values.set(3 * C + 5, HUGE_VAL);
      const int x = both.exact(both.add(std::move(values))), y = bytes_of(both, R * C), again = bytes_of(both, R * C),
                again_with_sums = bytes_of(both, R * C), direct = bytes_of(both, R * C),
                scales = both.exact(both.array(DType::f32, R)), largest = both.exact(both.array(DType::f32, C)),
                one = both.exact(both.array(DType::f32, 1)), few = both.exact(both.array(DType::f32, 40)),
                sums = both.array(DType::f32, C), added = both.array(DType::f32, C);
      both.by_row(sums, C), both.by_row(added, C);
      both.run([&, R = R, C = C](auto s, auto at) {
        const auto bytes = [&](int index) { return static_cast<e4m3*>(at(index)); };
        const auto floats = [&](int index) { return static_cast<float*>(at(index)); };
        quantize_rows(s, bytes(y), floats(scales), static_cast<const bf16*>(at(x)), R, C);
        spread_largest_scales(s, std::vector<LargestScale>{{floats(one), 1, floats(scales), R},
                                                           {floats(largest), C, floats(scales), R},
                                                           {floats(few), 40, floats(scales), 16}});
        quantize_transposed(s, {bytes(again), floats(largest), DType::e4m3, bytes(y), floats(scales), R, C});
        quantize_transposed(s, {bytes(again_with_sums), floats(largest), DType::e4m3, bytes(y), floats(scales), R, C,
                                is_bad ? nullptr : floats(sums)});
        quantize_transposed(s, {bytes(again), floats(largest), DType::e4m3, bytes(y), floats(scales), R, C,
                                is_bad ? nullptr : floats(added), true});
        quantize_transposed(s, {bytes(direct), floats(largest), DType::bf16, at(x), floats(scales), R, C});
      });
    }
  }
}

TEST_CASE("cuda: quantization in stretches has the CPU's bits", "[cuda]") {
  if (!has_gpu()) return;
  for (const auto& [R, C] : {std::pair<Size, Size>{16, 16}, {48, 144}, {270, 1600}, {9, 14336}}) {
    for (const bool is_bad : {false, true}) {
      CAPTURE(R, C, is_bad);
      OnBoth both;
      Array values = rows_of_all_sizes(DType::bf16, R, C, 1);
      if (is_bad) values.set(3 * C + 5, HUGE_VAL), values.set(7 * C + 9, std::nan(""));
      const Size P = 3, W = R + 8;
      const std::array<Size, 4> cuts = {0, R / 2 * C + 16, (R - 2) * C, R * C};
      const int x = both.exact(both.add(std::move(values))), y = bytes_of(both, R * C),
                parts = both.exact(both.add(Array(DType::f32, P * W))), scales = both.exact(both.array(DType::f32, R)),
                rest = both.exact(both.array(DType::f32, 8));
      both.run([&, R = R, C = C](auto s, auto at) {
        const auto floats = [&](int index) { return static_cast<float*>(at(index)); };
        const auto stretch = [&](std::size_t p, float* rows) {
          return MatrixStretch{
              cuts[p], cuts[p + 1], C, static_cast<const bf16*>(at(x)) + cuts[p], static_cast<e4m3*>(at(y)) + cuts[p],
              rows};
        };
        for (std::size_t p = 0; p < 3; ++p) {
          float* const part = floats(parts) + static_cast<Size>(p) * W;
          largest_of_rows(s, std::array{stretch(p, part)});
          if (p == 1) convert(s, DType::bf16, part + R, DType::bf16, at(x), 10, false);
        }
        join_scales(s, {static_cast<std::uint32_t*>(at(parts)), P, W, R, floats(scales),
                        static_cast<std::uint32_t*>(at(rest))});
        std::vector<MatrixStretch> stretches;  // more than one launch takes
        for (int i = 0; i < 5; ++i) {
          for (std::size_t p = 0; p < 3; ++p) stretches.push_back(stretch(p, floats(scales)));
        }
        quantize_stretches(s, stretches);
      });
    }
  }
}

TEST_CASE("cuda: matmuls in e4m3", "[cuda][cublas]") {
  if (!has_gpu()) return;
  for (const auto& [M, N, K] : {std::array<Size, 3>{16, 32, 48}, {256, 384, 1600}, {272, 144, 2048}}) {
    for (const bool one_scale : {false, true}) {
      for (const bool deterministic : {false, true}) {
        for (const DType out : {DType::bf16, DType::f32}) {
          CAPTURE(M, N, K, one_scale, deterministic, dtype_name(out));
          OnBoth both;
          const int a = both.add(rows_of_all_sizes(DType::bf16, M, K, 1, 2)),
                    b = both.add(rows_of_all_sizes(DType::bf16, N, K, 2, 2)), a8 = bytes_of(both, M * K),
                    b8 = bytes_of(both, N * K), a_scales = both.exact(both.array(DType::f32, M)),
                    b_scales = both.exact(both.array(DType::f32, N)), d = both.array(out, M * N),
                    plain = both.array(out, M * N), bias = both.array(DType::bf16, N), add = both.array(out, M * N);
          // Without one_scale, sums have 14 bits on the GPU.
          for (const int index : {d, plain}) both.by_row(index, one_scale ? M * N : N);
          both.run(
              [&, M = M, N = N, K = K](auto s, auto at) {
                const auto floats = [&](int index) { return static_cast<float*>(at(index)); };
                quantize_rows(s, static_cast<e4m3*>(at(a8)), floats(a_scales), static_cast<const bf16*>(at(a)), M, K);
                quantize_rows(s, static_cast<e4m3*>(at(b8)), floats(b_scales), static_cast<const bf16*>(at(b)), N, K);
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
              one_scale ? 20 : 400);
        }
      }
    }
  }
}

namespace {

// Rows in e4m3 on the device, with their scales.
struct RowsOnDevice {
  Size R, C;
  DeviceArray values{R * C}, scales{R * 4};

  e4m3* bytes() { return static_cast<e4m3*>(values.data()); }
  float* floats() { return static_cast<float*>(scales.data()); }
  std::pair<Array, Array> read() const {
    Array v(DType::f32, R * C / 4), s(DType::f32, R);
    values.read(v), scales.read(s);
    return {std::move(v), std::move(s)};
  }
};

const bf16* numbers_of(DeviceArray& array) { return static_cast<const bf16*>(array.data()); }

}  // namespace

TEST_CASE("cuda: what an activation quantizes as it writes has the bits of two passes", "[cuda]") {
  if (!has_gpu()) return;
  for (const auto& [R, C] : {std::pair<Size, Size>{16, 32}, {48, 1600}, {32, 6400}, {16, 28672}, {16, 57344}}) {
    CAPTURE(R, C);
    DeviceArray x(rows_of_all_sizes(DType::bf16, R, C, 1, 2)), dy(rows_of_all_sizes(DType::bf16, R, C, 2, 2));
    DeviceArray written(R * C * 2);
    const auto check = [&, R = R](Size columns, auto&& fused, auto&& operation) {
      RowsOnDevice one{R, columns}, two{R, columns};
      fused(one);
      operation(written.data());
      quantize_rows(gpu_stream(), two.bytes(), two.floats(), numbers_of(written), R, columns);
      const auto [values, scales] = one.read();
      const auto [expected_values, expected_scales] = two.read();
      CHECK(values.same_bits(expected_values));
      CHECK(scales.same_bits(expected_scales));
    };
    const CudaStream s = gpu_stream();
    check(
        C, [&, R = R, C = C](RowsOnDevice& y) { quantize_gelu(s, y.bytes(), y.floats(), numbers_of(x), R, C); },
        [&, R = R, C = C](void* y) { gelu_forward(s, DType::bf16, y, x.data(), R * C); });
    check(
        C,
        [&, R = R, C = C](RowsOnDevice& y) {
          quantize_gelu_backward(s, y.bytes(), y.floats(), numbers_of(dy), numbers_of(x), R, C);
        },
        [&, R = R, C = C](void* y) { gelu_backward(s, DType::bf16, y, dy.data(), x.data(), R * C, false); });
    check(
        C / 2,
        [&, R = R, C = C](RowsOnDevice& y) { quantize_swiglu(s, y.bytes(), y.floats(), numbers_of(x), R, C / 2); },
        [&, R = R, C = C](void* y) { swiglu_forward(s, DType::bf16, y, x.data(), R, C / 2); });
    check(
        C,
        [&, R = R, C = C](RowsOnDevice& y) {
          quantize_swiglu_backward(s, y.bytes(), y.floats(), numbers_of(dy), numbers_of(x), R, C / 2);
        },
        [&, R = R, C = C](void* y) { swiglu_backward(s, DType::bf16, y, dy.data(), x.data(), R, C / 2, false); });
  }
}

TEST_CASE("cuda: what a norm quantizes as it writes has the bits of two passes", "[cuda]") {
  if (!has_gpu()) return;
  for (const auto& [R, C] : {std::pair<Size, Size>{16, 32}, {48, 1600}, {32, 4096}, {16, 16384}}) {
    for (const bool centred : {true, false}) {
      CAPTURE(R, C, centred);
      DeviceArray x(rows_of_all_sizes(DType::bf16, R, C, 1, 2)), w(random_array(DType::bf16, C, 2)),
          b(random_array(DType::bf16, C, 3)), y(R * C * 2), plain(R * C * 2);
      struct Statistics {
        Size R;
        DeviceArray mean{R * 4}, rstd{R * 4};
        Array read(const DeviceArray& from) const {
          Array values(DType::f32, R);
          from.read(values);
          return values;
        }
      } fused{R}, written{R}, usual{R};
      RowsOnDevice one{R, C}, two{R, C};
      const CudaStream s = gpu_stream();
      const auto run = [&, R = R, C = C](Statistics& to, void* out, auto&& layer, auto&& rms) {
        if (centred) {
          layer(LayerNormForward{DType::bf16, R, C, out, to.mean.data(), to.rstd.data(), x.data(), w.data(), b.data(),
                                 1e-5f});
        } else {
          rms(RmsNormForward{DType::bf16, R, C, out, to.rstd.data(), x.data(), w.data(), 1e-5f});
        }
      };
      run(
          fused, nullptr, [&](const auto& n) { quantize_layer_norm(s, one.bytes(), one.floats(), n); },
          [&](const auto& n) { quantize_rms_norm(s, one.bytes(), one.floats(), n); });
      run(
          written, y.data(), [&](const auto& n) { write_layer_norm(s, n); },
          [&](const auto& n) { write_rms_norm(s, n); });
      run(
          usual, plain.data(), [&](const auto& n) { layer_norm_forward(s, n); },
          [&](const auto& n) { rms_norm_forward(s, n); });
      quantize_rows(s, two.bytes(), two.floats(), numbers_of(y), R, C);
      const auto [values, scales] = one.read();
      const auto [expected_values, expected_scales] = two.read();
      CHECK(values.same_bits(expected_values));
      CHECK(scales.same_bits(expected_scales));
      CHECK(fused.read(fused.rstd).same_bits(written.read(written.rstd)));
      CHECK(error_of(fused.read(fused.rstd), usual.read(usual.rstd).values()) <= tolerance(DType::f32));
      Array expected(DType::bf16, R * C), found(DType::bf16, R * C);
      plain.read(expected), y.read(found);
      CHECK(error_of(found, expected.values()) <= 2 * tolerance(DType::bf16));
      if (!centred) continue;
      CHECK(fused.read(fused.mean).same_bits(written.read(written.mean)));
      CHECK(error_of(fused.read(fused.mean), usual.read(usual.mean).values()) <= tolerance(DType::f32));
    }
  }
}
