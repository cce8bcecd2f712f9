// FP8: quantization, and the matmuls of a block in e4m3.
#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

#include "bench/kernel_case.h"
#include "kernels/gemm.h"
#include "kernels/quantize.h"
#include "tensor/dispatch.h"

namespace lt::bench {
namespace {

struct Operand {
  Tensor values, scales;

  Operand(Size R, Size C, Device device)
      : values(Tensor::empty({R, C}, DType::e4m3, device)), scales(Tensor::empty({R}, DType::f32, device)) {}
  void quantize(const Tensor& x, Size R, Size C) const {
    tensor::dispatch(x.device(), [&](auto s) {
      kernels::quantize_rows(s, values.data<e4m3>(), scales.data<float>(), x.data<bf16>(), R, C);
    });
  }
};

Operand random_operand(Size R, Size C, Device device) {
  const Operand operand(R, C, device);
  operand.quantize(random_values({R, C}, DType::bf16, device), R, C);
  return operand;
}

KernelCase rows_case(std::string_view of, Size R, Size C, Device device) {
  return {fmt::format("quantize_rows.{}", of),
          fmt::format("R={} C={}", R, C),
          DType::bf16,
          Work::elementwise,
          2 * R * C,
          3 * R * C,
          [=] {
            const Tensor x = random_values({R, C}, DType::bf16, device);
            const Operand y(R, C, device);
            return PreparedKernel{[=] { y.quantize(x, R, C); }};
          }};
}

KernelCase transpose_case(std::string_view of, Size R, Size C, bool from_quantized, Device device) {
  const Size bytes = (from_quantized ? 2 : 3) * R * C;
  return {fmt::format("{}.{}", from_quantized ? "transpose_quantized" : "quantize_transposed", of),
          fmt::format("R={} C={}", R, C),
          DType::bf16,
          Work::elementwise,
          2 * R * C,
          bytes,
          [=] {
            const Tensor x = random_values({R, C}, DType::bf16, device);
            const Operand rows(R, C, device), y(C, R, device);
            rows.quantize(x, R, C);
            return PreparedKernel{[=] {
              tensor::dispatch(device, [&](auto s) {
                const kernels::LargestScale largest{y.scales.data<float>(), 1, rows.scales.data<float>(), R};
                kernels::spread_largest_scales(s, std::span(&largest, 1));
                kernels::quantize_transposed(s, {.y_CR = y.values.data<e4m3>(),
                                                 .scale = y.scales.data<float>(),
                                                 .dtype = from_quantized ? DType::e4m3 : DType::bf16,
                                                 .x_RC = from_quantized ? rows.values.data() : x.data(),
                                                 .scales_R = rows.scales.data<float>(),
                                                 .R = R,
                                                 .C = C});
              });
            }};
          }};
}

// d [M, N] = a [M, K] b^T.
KernelCase matmul_case(const std::string& name, Size M, Size N, Size K, DType out, bool one_scale, Device device) {
  return {name,
          fmt::format("M={} N={} K={}", M, N, K),
          DType::e4m3,
          Work::matmul,
          2 * M * N * K,
          (M + N) * K + M * N * dtype_bytes(out),
          [=] {
            const Operand a = random_operand(M, K, device), b = random_operand(N, K, device);
            const Tensor d = Tensor::empty({M, N}, out, device);
            return PreparedKernel{[=] {
              tensor::dispatch(device, [&](auto s) {
                kernels::gemm(s, {.M = M,
                                  .N = N,
                                  .K = K,
                                  .a = a.values.data(),
                                  .b = b.values.data(),
                                  .d = d.data(),
                                  .transpose_b = true,
                                  .dtype = DType::e4m3,
                                  .out = out,
                                  .a_scales = a.scales.data<float>(),
                                  .b_scales = b.scales.data<float>(),
                                  .one_scale = one_scale});
              });
            }};
          }};
}

}  // namespace

void add_quantized_cases(KernelCases& cases, const KernelSizes& sizes) {
  const nn::TransformerSpec& spec = sizes.spec;
  const Size M = sizes.M();
  for (const KernelSizes::Linear& l : sizes.linears()) {
    const auto add = [&](std::string_view pass, Size m, Size n, Size k, DType out, bool one_scale) {
      if (m % kernels::kQuantizedMultiple + n % kernels::kQuantizedMultiple + k % kernels::kQuantizedMultiple > 0)
        return;
      cases.push_back(matmul_case(fmt::format("gemm.{}.{}", l.name, pass), m, n, k, out, one_scale, sizes.device));
    };
    add("forward", M, l.out, l.in, DType::bf16, false);
    add("weight_gradient", l.out, l.in, M, DType::f32, true);
    add("input_gradient", M, l.in, l.out, DType::bf16, false);
  }
  for (const auto& [of, columns] : {std::pair<std::string_view, Size>{"width", spec.width}, {"ffn", spec.ffn}}) {
    if (M % kernels::kQuantizedMultiple + columns % kernels::kQuantizedMultiple > 0) continue;
    cases.push_back(rows_case(of, M, columns, sizes.device));
    for (const bool from_quantized : {true, false}) {
      cases.push_back(transpose_case(of, M, columns, from_quantized, sizes.device));
    }
  }
}

}  // namespace lt::bench
