// Builds and runs a linear layer's three matmuls.
#include "ops/linear_matmuls.h"

#include "kernels/reduce.h"
#include "ops/check.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"

namespace lt::ops {

kernels::Gemm linear_matmul(const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return {.M = rows(x),
          .N = weight.dim(0),
          .K = weight.dim(1),
          .a = x.data_or_null(),
          .b = weight.data_or_null(),
          .d = y.data_or_null(),
          .transpose_b = true,
          .dtype = x.dtype(),
          .out = x.dtype(),
          .bias_N = bias.defined() ? bias.data_or_null() : nullptr};
}

void multiply(Device device, const kernels::Gemm& matmul) {
  matmul.dtype == DType::e4m3 ? profile::count_quantized_matmul(matmul.M, matmul.N, matmul.K)
                              : profile::count_matmul(matmul.M, matmul.N, matmul.K);
  kernels::Gemm set = matmul;
  set.settings = Context::current().kernels;
  tensor::dispatch(device, [&](auto s) { kernels::gemm(s, set); });
}

void add_parameter_gradients(const Slot& weight, const Slot& bias, const Tensor& dy, const Saved& x) {
  const GradientTarget db = bias != nullptr ? bias->next() : GradientTarget{{}, false};
  // The matmul can also compute db, but only in a parameter gradient's dtype and without accumulating.
  const bool together =
      weight != nullptr && bias != nullptr && !db.accumulate && db.dst.dtype() == kernels::gradient_dtype(dy.dtype());
  if (weight != nullptr) {
    const GradientTarget dw = weight->next();
    multiply(dy.device(), {.M = dy.dim(-1),
                           .N = x.get().dim(-1),
                           .K = rows(dy),
                           .a = dy.data_or_null(),
                           .b = x.get().data_or_null(),
                           .d = dw.dst.data_or_null(),
                           .transpose_a = true,
                           .dtype = dy.dtype(),
                           .out = dw.dst.dtype(),
                           .accumulate = dw.accumulate,
                           .sum_a_M = together ? db.dst.data_or_null() : nullptr});
  }
  if (bias == nullptr || together) return;
  tensor::dispatch(dy.device(), [&](auto s) {
    kernels::sum_rows(s, db.dst.dtype(), db.dst.data(), dy.dtype(), dy.data(), rows(dy), dy.dim(-1), db.accumulate);
  });
}

void add_input_gradient(const Slot& x, const Tensor& dy, const Tensor& weight) {
  if (x == nullptr) return;
  const GradientTarget dx = x->next();
  multiply(dy.device(), {.M = rows(dy),
                         .N = weight.dim(1),
                         .K = dy.dim(-1),
                         .a = dy.data_or_null(),
                         .b = weight.data_or_null(),
                         .d = dx.dst.data_or_null(),
                         .dtype = dy.dtype(),
                         .out = dx.dst.dtype(),
                         .accumulate = dx.accumulate});
}

void check_linear(std::string_view op, const Tensor& x, std::string_view weight_name, const Tensor& weight,
                  std::string_view bias_name, const Tensor& bias) {
  require_float(op, "x", x);
  require_min_dims(op, "x", x, 1);
  require_weight(op, weight_name, weight, x, x.dim(-1));
  if (!bias.defined()) return;
  require_like(op, bias_name, bias, x);
  require_shape(op, bias_name, bias, {weight.dim(0)});
}

}  // namespace lt::ops
