// reshape, transpose and slice. reshape shares storage; the other two copy into a contiguous result.
#include "kernels/elementwise.h"
#include "libtrain/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {

static_assert(Shape::kMaxDims == kernels::kMaxDims, "a kernel walks every tensor that a shape can describe");

namespace {

struct Reshape final : Function {
  const char* name() const override { return "reshape"; }

  Slot x_;

  Tensor forward(const Tensor& x, const Shape& shape) {
    x_ = x.gradient_slot();
    return x.view(shape);
  }

  void backward(const Tensor& dy) override { x_->add(dy.view(x_->shape)); }
};

struct Transpose final : Function {
  const char* name() const override { return "transpose"; }

  Slot x_;
  int dim0_ = 0, dim1_ = 0;

  Tensor forward(const Tensor& x, int dim0, int dim1) {
    x_ = x.gradient_slot(), dim0_ = dim0, dim1_ = dim1;
    return packed(x);
  }

  Tensor packed(const Tensor& x) const {
    const Tensor view = x.transposed(dim0_, dim1_);
    const Tensor y = Tensor::empty(view.shape(), x.dtype(), x.device());
    copy(y, view);
    return y;
  }

  void backward(const Tensor& dy) override { x_->add(packed(dy)); }
};

struct Slice final : Function {
  const char* name() const override { return "slice"; }

  Slot x_;
  int dim_ = 0;
  Size begin_ = 0, length_ = 0;

  Tensor forward(const Tensor& x, int dim, Size begin, Size length) {
    x_ = x.gradient_slot(), dim_ = dim, begin_ = begin, length_ = length;
    const Tensor view = x.narrow(dim, begin, length);
    const Tensor y = Tensor::empty(view.shape(), x.dtype(), x.device());
    copy(y, view);
    return y;
  }

  void backward(const Tensor& dy) override {
    const Tensor dx = Tensor::zeros(x_->shape, dy.dtype(), dy.device());
    copy(dx.narrow(dim_, begin_, length_), dy);
    x_->add(dx);
  }
};

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  require_float("reshape", "x", x);
  if (shape.elements() != x.elements()) {
    fail("reshape", "shape", std::to_string(x.elements()) + " elements as in " + to_string(x.shape()),
         to_string(shape));
  }
  return record<Reshape>(x, shape);
}

Tensor transpose(const Tensor& x, int dim0, int dim1) {
  require_float("transpose", "x", x);
  return record<Transpose>(x, require_dim("transpose", x, dim0), require_dim("transpose", x, dim1));
}

Tensor slice(const Tensor& x, int dim, Size begin, Size length) {
  require_float("slice", "x", x);
  dim = require_dim("slice", x, dim);
  if (begin < 0 || length < 0 || begin + length > x.dim(dim)) {
    fail("slice", "range", "within [0, " + std::to_string(x.dim(dim)) + ")",
         "[" + std::to_string(begin) + ", " + std::to_string(begin + length) + ")");
  }
  return record<Slice>(x, dim, begin, length);
}

}  // namespace lt::ops
