// linear() with matmuls in e4m3. A matmul sums along the rows of both operands. So y = x W^T takes x and W unchanged,
// dx = dy W takes the transpose of W, and dW = dy^T x takes the transposes of dy and x. Each row of x, W and dy has its
// own scale. A transpose has one scale, because scales of rows would vary along the sum. Sums are f32. Bias and
// residual are as in linear(); the bias's gradient is the sum of the quantized dy.
#include "ops/quantized_linear.h"

#include <vector>

#include "kernels/gemm.h"
#include "libtrain/tensor/autograd.h"
#include "ops/check.h"
#include "ops/linear_matmuls.h"
#include "ops/quantized.h"
#include "profile/activity_clock.h"
#include "tensor/storage.h"

namespace lt::ops {
namespace {

// a b^T with the scales of rows, or the single scales of transposes.
kernels::Gemm matmul_of(const Quantized& a, const Quantized& b, bool one_scale, const Tensor& d) {
  return {.M = a.values.dim(0),
          .N = b.values.dim(0),
          .K = a.values.dim(1),
          .a = a.values.data_or_null(),
          .b = b.values.data_or_null(),
          .d = d.data_or_null(),
          .transpose_b = true,
          .dtype = DType::e4m3,
          .out = d.dtype(),
          .a_scales = a.scales.data_or_null<float>(),
          .b_scales = b.scales.data_or_null<float>(),
          .one_scale = one_scale};
}

struct QuantizedLinear final : Function {
  const char* name() const override { return "linear"; }
  bool takes_deferred() const override { return true; }

  Saved x_;         // if the tape drops values that are cheap to recompute
  Quantized rows_;  // of x, otherwise: half of its bytes
  Saved weight_;
  Tensor weight_scales_;  // [N]
  Slot x_slot_, bias_, residual_;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
    if (residual.defined()) residual.require_values();
    weight_ = weight, x_slot_ = x.gradient_slot(), bias_ = bias.gradient_slot(), residual_ = residual.gradient_slot();
    const Tensor y = Tensor::empty(with_last(x, weight.dim(0)), x.dtype(), x.device());
    const Quantized a = quantize_rows(x), b = quantize_rows(weight);
    kernels::Gemm matmul = matmul_of(a, b, false, y);
    matmul.bias_N = bias.defined() ? bias.data_or_null() : nullptr;
    matmul.add_MN = residual.defined() ? residual.data_or_null() : nullptr;
    multiply(x.device(), matmul);
    weight_scales_ = b.scales;
    const Tape* const tape = Context::current().tape;
    if (tape == nullptr || weight_.slot() == nullptr) return y;
    if (tape->keeps_values()) {
      rows_ = a;
    } else {
      x_ = x;
    }
    return y;
  }

  // The weight gradient comes first, so that its reduction can start early. A bias that is a parameter has the gradient
  // of a weight whose input is 1: it takes the quantized dy.
  void backward(const Tensor& dy) override {
    const Quantized dy_rows = quantize_rows(dy);
    const bool has_weight = weight_.slot() != nullptr;
    const bool sums_rows = has_weight && bias_ != nullptr && bias_->dtype == DType::f32;
    if (has_weight && !rows_.defined()) {
      const profile::ActivityScope activity(Activity::recompute);
      rows_ = quantize_rows(x_.handle());
    }
    const TransposeScales scales = transpose_scales(dy_rows);
    if (has_weight) add_weight_gradient(dy_rows, scales, sums_rows ? bias_->next() : GradientTarget{{}, false});
    if (bias_ != nullptr && !sums_rows) {
      dy.require_values();
      add_parameter_gradients(nullptr, bias_, dy, {});
    }
    if (residual_ == nullptr) tensor::TensorStorage::forget(dy);  // what it would be made of is not needed any more
    if (x_slot_ != nullptr) {
      const GradientTarget dx = x_slot_->next();
      const Tensor& weight = weight_.handle();
      const Quantized columns = transpose(weight, weight_scales_, scales.weight);
      kernels::Gemm matmul = matmul_of(dy_rows, columns, false, dx.dst);
      matmul.accumulate = dx.accumulate;
      multiply(dy_rows.values.device(), matmul);
    }
    if (residual_ != nullptr) residual_->add(dy);
  }

  // The scales of the transposes that this pass needs; the others stay undefined.
  struct TransposeScales {
    Tensor dy, x, weight;
  };
  TransposeScales transpose_scales(const Quantized& dy_rows) const {
    TransposeScales scales;
    std::vector<LargestOf> all;
    const auto add = [&](Tensor& scale, const Tensor& row_scales, Size count) {
      scale = Tensor::empty({count}, DType::f32, row_scales.device());
      all.push_back({scale, row_scales});
    };
    if (weight_.slot() != nullptr) add(scales.dy, dy_rows.scales, 1), add(scales.x, rows_.scales, 1);
    if (x_slot_ != nullptr) add(scales.weight, weight_scales_, weight_.handle().dim(1));
    find_largest(all);
    return scales;
  }

  // `db` gets the sums over the rows of dy, if its tensor is defined.
  void add_weight_gradient(const Quantized& dy_rows, const TransposeScales& scales, const GradientTarget& db) {
    const GradientTarget dw = weight_.slot()->next();
    const Quantized a = transpose(dy_rows, scales.dy, db), b = transpose(rows_, scales.x);
    rows_ = {};
    kernels::Gemm matmul = matmul_of(a, b, true, dw.dst);
    matmul.accumulate = dw.accumulate;
    multiply(a.values.device(), matmul);
  }
};

}  // namespace

Tensor quantized_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  return record<QuantizedLinear>(x, weight, bias, residual);
}

}  // namespace lt::ops
