// Kernels over a flat range of parameters or gradients: sums, conversion, the optimizer. N is the number of weights in
// one block's matrices.
#include <fmt/format.h>

#include "bench/kernel_case.h"
#include "kernels/adamw.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "tensor/dispatch.h"

namespace lt::bench {
namespace {

Size block_weights(const KernelSizes& sizes) {
  const Size C = sizes.spec.width, gates = sizes.ffn_inputs();
  return C * (sizes.row() + sizes.spec.heads * sizes.spec.head_dim + (gates + 1) * sizes.spec.ffn);
}

// Also writes a copy in `dtype` unless that is f32.
KernelCase adamw_case(Size N, DType dtype, Device device) {
  const bool has_copy = dtype != DType::f32;
  const Size copy_bytes = has_copy ? N * dtype_bytes(dtype) : 0, array = 4 * N;
  KernelCase c{"adamw", fmt::format("N={}", N), dtype, Work::elementwise, 17 * N, 7 * array + copy_bytes, [=] {
                 const Tensor w = random_values({N}, DType::f32, device),
                              gradient = random_values({N}, DType::f32, device);
                 const Tensor m = Tensor::zeros({N}, DType::f32, device), v = Tensor::zeros({N}, DType::f32, device);
                 const Tensor low = Tensor::empty({has_copy ? N : 1}, dtype, device);
                 const std::vector<float> step{1e-6f, 1, 0, 1, 1, 1, 1, 0};  // lr, gradient_scale, skip, bias, step
                 const Tensor numbers = Tensor::from(step, {static_cast<Size>(step.size())}, device);
                 return PreparedKernel{[=] {
                   tensor::dispatch(device, [&](auto s) {
                     kernels::adamw_update(s,
                                           {w.data<float>(), m.data<float>(), v.data<float>(), gradient.data<float>(),
                                            has_copy ? low.data() : nullptr, dtype, N, N},
                                           {0.9f, 0.95f, 1e-8f, 0.1f}, static_cast<const StepNumbers*>(numbers.data()));
                   });
                 }};
               }};
  c.footprint = 4 * array + copy_bytes;  // w, m and v are each read and written
  return c;
}

KernelCase sum_rows_case(Size R, Size C, DType dtype, Device device) {
  const DType out = kernels::gradient_dtype(dtype);
  return {"sum_rows",
          fmt::format("R={} C={}", R, C),
          dtype,
          Work::elementwise,
          R * C,
          R * C * dtype_bytes(dtype) + C * dtype_bytes(out),
          [=] {
            const Tensor x = random_values({R, C}, dtype, device), sums = Tensor::empty({C}, out, device);
            return PreparedKernel{[=] {
              tensor::dispatch(device,
                               [&](auto s) { kernels::sum_rows(s, out, sums.data(), dtype, x.data(), R, C, false); });
            }};
          }};
}

KernelCase sum_squares_case(Size N, Device device) {
  return {"sum_squares", fmt::format("N={}", N), DType::f32, Work::elementwise, 2 * N, 4 * N + 8, [=] {
            const Tensor x = random_values({N}, DType::f32, device), sum = Tensor::empty({1}, DType::f64, device);
            return PreparedKernel{[=] {
              tensor::dispatch(device,
                               [&](auto s) { kernels::sum_squares(s, DType::f32, sum.data<double>(), x.data(), N); });
            }};
          }};
}

// The sum in a reduce-scatter between two ranks: values arrive as `dtype` and are summed in f32.
KernelCase sum_ranks_case(Size N, DType dtype, Device device) {
  return {
      "sum_ranks", fmt::format("ranks=2 N={}", N), dtype, Work::elementwise, N, N * (2 * dtype_bytes(dtype) + 4), [=] {
        const Tensor a = random_values({N}, dtype, device), b = random_values({N}, dtype, device);
        const Tensor sum = Tensor::empty({N}, DType::f32, device);
        return PreparedKernel{[=] {
          const void* const inputs[] = {a.data(), b.data()};
          tensor::dispatch(device,
                           [&](auto s) { kernels::sum_ranks(s, DType::f32, sum.data(), dtype, inputs, 2, N, {}); });
        }};
      }};
}

KernelCase convert_case(Size N, Device device) {
  return {"convert", fmt::format("f32 to bf16, N={}", N), DType::bf16, Work::elementwise, N, 6 * N, [=] {
            const Tensor x = random_values({N}, DType::f32, device), y = Tensor::empty({N}, DType::bf16, device);
            return PreparedKernel{[=] {
              tensor::dispatch(
                  device, [&](auto s) { kernels::convert(s, DType::bf16, y.data(), DType::f32, x.data(), N, false); });
            }};
          }};
}

}  // namespace

void add_flat_cases(KernelCases& cases, const KernelSizes& sizes) {
  const Size N = block_weights(sizes);
  for (const DType dtype : kBenchDTypes) {
    cases.push_back(sum_rows_case(sizes.M(), sizes.row(), dtype, sizes.device));
    cases.push_back(sum_ranks_case(N, dtype, sizes.device));
    cases.push_back(adamw_case(N, dtype, sizes.device));
  }
  cases.push_back(sum_squares_case(N, sizes.device));
  cases.push_back(convert_case(N, sizes.device));
}

}  // namespace lt::bench
