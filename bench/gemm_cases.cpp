// The matmuls of a block and of the head: forward, the gradients of weight and input, and one row with constant
// weights, as in generation.
#include <fmt/format.h>

#include "bench/kernel_case.h"
#include "kernels/gemm.h"
#include "ops/head.h"
#include "tensor/dispatch.h"

namespace lt::bench {
namespace {

KernelCase matmul(const std::string& name, const kernels::Gemm& g, Device device) {
  const Size read = (g.M * g.K + g.K * g.N) * dtype_bytes(g.dtype), written = g.M * g.N * dtype_bytes(g.out);
  return {name,
          fmt::format("M={} N={} K={}", g.M, g.N, g.K),
          g.dtype,
          Work::matmul,
          2 * g.M * g.N * g.K,
          read + written,
          [=] {
            const Tensor a = random_values({g.M * g.K}, g.dtype, device);
            const Tensor b = random_values({g.K * g.N}, g.dtype, device);
            const Tensor d = Tensor::empty({g.M * g.N}, g.out, device);
            return PreparedKernel{[=] {
              kernels::Gemm call = g;
              call.a = a.data(), call.b = b.data(), call.d = d.data();
              tensor::dispatch(device, [&](auto s) { kernels::gemm(s, call); });
            }};
          }};
}

}  // namespace

void add_gemm_cases(KernelCases& cases, const KernelSizes& sizes) {
  const nn::TransformerSpec& spec = sizes.spec;
  struct Matmul : KernelSizes::Linear {
    Size rows;
  };
  std::vector<Matmul> matmuls;
  for (const KernelSizes::Linear& l : sizes.linears()) matmuls.push_back({l, sizes.M()});
  matmuls.push_back({{"head", spec.width, spec.vocab}, ops::head_chunk_rows(sizes.device.type, sizes.M(), spec.vocab)});
  for (const DType dtype : kBenchDTypes) {
    for (const Matmul& l : matmuls) {
      const auto add = [&](std::string_view pass, const kernels::Gemm& g) {
        cases.push_back(matmul(fmt::format("gemm.{}.{}", l.name, pass), g, sizes.device));
      };
      add("forward", {.M = l.rows, .N = l.out, .K = l.in, .transpose_b = true, .dtype = dtype, .out = dtype});
      add("weight_gradient", {.M = l.out,
                              .N = l.in,
                              .K = l.rows,
                              .transpose_a = true,
                              .dtype = dtype,
                              .out = kernels::gradient_dtype(dtype)});
      add("input_gradient", {.M = l.rows, .N = l.in, .K = l.out, .dtype = dtype, .out = dtype});
      add("decode", {.M = 1,
                     .N = l.out,
                     .K = l.in,
                     .transpose_b = true,
                     .dtype = dtype,
                     .out = dtype,
                     .settings = {.constant_weights = true}});
    }
  }
}

}  // namespace lt::bench
