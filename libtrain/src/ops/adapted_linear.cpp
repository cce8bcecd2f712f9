// adapted_linear: linear() plus low-rank adapters for ranges of the weight's rows. One matmul computes x A^T of all
// adapters; then one matmul per range adds to the range's columns of y.
#include "kernels/elementwise.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "ops/linear_matmuls.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct AdaptedLinear final : Function {
  const char* name() const override { return "adapted_linear"; }

  Saved x_, weight_, a_, b_;
  Slot bias_, residual_;
  LowRank adapter_;
  Tensor inner_;  // scale x A^T, the ranges' blocks side by side

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual, const Tensor& a,
                 const Tensor& b, const LowRank& adapter) {
    x_ = x, weight_ = weight, a_ = a, b_ = b, adapter_ = adapter;
    bias_ = bias.gradient_slot(), residual_ = residual.gradient_slot();
    const Tensor y = Tensor::empty(with_last(x, weight.dim(0)), x.dtype(), x.device());
    kernels::Gemm matmul = linear_matmul(y, x, weight, bias);
    if (residual.defined()) matmul.add_MN = residual.data_or_null();
    multiply(x.device(), matmul);
    inner_ = Tensor::empty(with_last(x, a.dim(0)), x.dtype(), x.device());
    matmul = linear_matmul(inner_, x, a, {});
    matmul.alpha = adapter.scale;
    multiply(x.device(), matmul);
    for_each_block(y, b, [&](const Tensor& y_block, const Tensor& inner, const Tensor& b_block) {
      kernels::Gemm added = linear_matmul(y_block, inner, b_block, {});
      added.lda = inner_.dim(-1), added.ldd = y.dim(-1), added.accumulate = true;
      multiply(y.device(), added);
    });
    return y;
  }

  // The weight gradients come first, so that their reduction can start early.
  void backward(const Tensor& dy) override {
    add_parameter_gradients(weight_.slot(), bias_, dy, x_);
    if (b_.slot() != nullptr) add_b_gradient(dy);
    const Tensor dinner = inner_;  // its values are not needed any more
    for_each_block(dy, b_.get(), [&](const Tensor& dy_block, const Tensor& dinner_block, const Tensor& b_block) {
      multiply(dy.device(), {.M = rows(dy),
                             .N = b_block.dim(1),
                             .K = b_block.dim(0),
                             .a = dy_block.data_or_null(),
                             .b = b_block.data_or_null(),
                             .d = dinner_block.data_or_null(),
                             .lda = dy.dim(-1),
                             .ldd = dinner.dim(-1),
                             .dtype = dy.dtype(),
                             .out = dy.dtype()});
    });
    tensor::dispatch(dy.device(), [&](auto s) {
      kernels::scale(s, dinner.dtype(), dinner.data(), dinner.data(), adapter_.scale, dinner.elements(), false);
    });
    add_parameter_gradients(a_.slot(), nullptr, dinner, x_);
    if (x_.slot() != nullptr) {
      add_input_gradient(x_.slot(), dy, weight_.get());
      add_input_gradient(x_.slot(), dinner, a_.get());
    }
    if (residual_ != nullptr) residual_->add(dy);
  }

  void add_b_gradient(const Tensor& dy) {
    const GradientTarget db = b_.slot()->next();
    for_each_block(dy, db.dst, [&](const Tensor& dy_block, const Tensor& inner, const Tensor& db_block) {
      multiply(dy.device(), {.M = db_block.dim(0),
                             .N = db_block.dim(1),
                             .K = rows(dy),
                             .a = dy_block.data_or_null(),
                             .b = inner.data_or_null(),
                             .d = db_block.data_or_null(),
                             .lda = dy.dim(-1),
                             .ldb = inner_.dim(-1),
                             .transpose_a = true,
                             .dtype = dy.dtype(),
                             .out = db.dst.dtype(),
                             .accumulate = db.accumulate});
    });
  }

  // Calls visit(columns of y, columns of inner_, rows of b) for each range.
  template <class Visit>
  void for_each_block(const Tensor& y, const Tensor& b, Visit&& visit) const {
    const Size rank = b.dim(1);
    Size block = 0, row = 0;
    for (const RowRange& range : adapter_.ranges) {
      visit(y.narrow(-1, range.begin, range.size), inner_.narrow(-1, block * rank, rank), b.narrow(0, row, range.size));
      ++block, row += range.size;
    }
  }
};

}  // namespace

Tensor adapted_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                      const Tensor& a, const Tensor& b, const LowRank& adapter) {
  constexpr const char* kName = "adapted_linear";
  check_linear(kName, x, "weight", weight, "bias", bias);
  if (residual.defined()) {
    require_like(kName, "residual", residual, x);
    require_shape(kName, "residual", residual, with_last(x, weight.dim(0)));
  }
  require_like(kName, "a", a, x);
  require_like(kName, "b", b, x);
  require_min_dims(kName, "b", b, 2);
  Size adapted = 0, end = 0;
  for (const RowRange& range : adapter.ranges) {
    if (range.begin < end || range.size < 1 || range.begin + range.size > weight.dim(0)) {
      fail(kName, "ranges", "ascending rows of [0, " + std::to_string(weight.dim(0)) + ")",
           "[" + std::to_string(range.begin) + ", " + std::to_string(range.begin + range.size) + ")");
    }
    end = range.begin + range.size, adapted += range.size;
  }
  const Size rank = b.dim(1);
  require_shape(kName, "b", b, {adapted, rank});
  require_shape(kName, "a", a, {rank * static_cast<Size>(adapter.ranges.size()), x.dim(-1)});
  return record<AdaptedLinear>(x, weight, bias, residual, a, b, adapter);
}

}  // namespace lt::ops
