// Quantizes and transposes matrices.
#include "ops/quantized.h"

#include <string>
#include <vector>

#include "kernels/quantize.h"
#include "libtrain/device/context.h"
#include "ops/check.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"
#include "tensor/storage.h"

namespace lt::ops {
namespace {

// `row_scales` are the scales of `values` in e4m3, or those that quantize `values` in bf16. `sums`: see transpose().
Quantized transposed(const Tensor& values, const Tensor& row_scales, const Tensor& scales,
                     const GradientTarget& sums = {{}, false}) {
  const Size R = rows(values), C = values.dim(-1);
  Quantized y{Tensor::empty({C, R}, DType::e4m3, values.device()), scales};
  // Through tiles it runs at three quarters of memory's rate.
  if (values.dtype() == DType::e4m3) profile::count_traffic(y.values.bytes() / 2);
  tensor::dispatch(values.device(), [&](auto s) {
    kernels::quantize_transposed(s, {.y_CR = y.values.data<e4m3>(),
                                     .scale = scales.data<float>(),
                                     .dtype = values.dtype(),
                                     .x_RC = values.data(),
                                     .scales_R = row_scales.data<float>(),
                                     .R = R,
                                     .C = C,
                                     .sums_C = sums.dst.defined() ? sums.dst.data<float>() : nullptr,
                                     .accumulate_sums = sums.accumulate});
  });
  return y;
}

// Whether x belongs to a block whose matmuls take operands in e4m3.
bool is_in_fp8(const Tensor& x) {
  const Context& context = Context::current();
  return context.kernels.fp8 && context.in_block && x.dtype() == DType::bf16;
}

bool can_be_quantized(Size R, Size C) {
  constexpr Size kMultiple = kernels::kQuantizedMultiple;
  return R % kMultiple == 0 && C % kMultiple == 0 && C <= kernels::kMostQuantizedColumns;
}

}  // namespace

bool multiplies_in_fp8(const Tensor& x, const Tensor& weight) {
  if (!is_in_fp8(x)) return false;
  const Size M = rows(x), N = weight.dim(0), K = weight.dim(1);
  if (can_be_quantized(M, N) && can_be_quantized(M, K)) return true;
  Context::current().give_notice("matmuls of " + std::to_string(M) + " x " + std::to_string(N) + " x " +
                                 std::to_string(K) + " run in bf16: FP8 takes sizes in multiples of " +
                                 std::to_string(kernels::kQuantizedMultiple) + ", inputs and outputs up to " +
                                 std::to_string(kernels::kMostQuantizedColumns));
  return false;
}

bool should_defer(const Tensor& x, Size C) { return is_in_fp8(x) && can_be_quantized(rows(x), C); }

Quantized quantize_rows(const Tensor& x) {
  if (const tensor::TensorStorage::Rows* const rows = tensor::TensorStorage::rows(x))
    return {rows->values, rows->scales};
  const Size R = rows(x), C = x.dim(-1);
  Quantized y{Tensor::empty({R, C}, DType::e4m3, x.device()), Tensor::empty({R}, DType::f32, x.device())};
  if (tensor::TensorStorage::quantize(x, y.values, y.scales)) return y;
  x.require_values();
  tensor::dispatch(x.device(), [&](auto s) {
    kernels::quantize_rows(s, y.values.data<e4m3>(), y.scales.data<float>(), x.data<bf16>(), R, C);
  });
  return y;
}

void find_largest(const std::vector<LargestOf>& all) {
  if (all.empty()) return;
  tensor::dispatch(all.front().scale.device(), [&](auto s) {
    std::vector<kernels::LargestScale> scales;
    for (const LargestOf& one : all) {
      scales.push_back(
          {one.scale.data<float>(), one.scale.elements(), one.row_scales.data<float>(), one.row_scales.elements()});
    }
    kernels::spread_largest_scales(s, scales);
  });
}

Quantized transpose(const Quantized& x, const Tensor& scale, const GradientTarget& sums) {
  return transposed(x.values, x.scales, scale, sums);
}

Quantized transpose(const Tensor& weight, const Tensor& row_scales, const Tensor& scale) {
  const tensor::TensorStorage::Rows* const rows = tensor::TensorStorage::rows(weight);
  if (rows == nullptr) weight.require_values();
  return transposed(rows != nullptr ? rows->values : weight, row_scales, scale);
}

}  // namespace lt::ops
