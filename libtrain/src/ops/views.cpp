// The operations reshape, transpose, slice, concat, stack and split. reshape shares storage; the others copy into a
// contiguous result.
#include <span>
#include <string>
#include <vector>

#include "kernels/elementwise.h"
#include "libtrain/ops/ops.h"
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

struct Concat final : Function {
  const char* name() const override { return "concat"; }

  std::vector<Slot> parts_;
  std::vector<Size> sizes_;
  int dim_ = 0;

  Tensor forward(const std::vector<Tensor>& parts, int dim, const Shape& shape) {
    dim_ = dim;
    const Tensor y = Tensor::empty(shape, parts[0].dtype(), parts[0].device());
    Size begin = 0;
    for (const Tensor& part : parts) {
      copy(y.narrow(dim, begin, part.dim(dim)), part);
      parts_.push_back(part.gradient_slot()), sizes_.push_back(part.dim(dim));
      begin += part.dim(dim);
    }
    return y;
  }

  void backward(const Tensor& dy) override {
    Size begin = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Tensor view = dy.narrow(dim_, begin, sizes_[i]);
      begin += sizes_[i];
      if (parts_[i] == nullptr) continue;
      const Tensor gradient = Tensor::empty(view.shape(), dy.dtype(), dy.device());
      copy(gradient, view);
      parts_[i]->add(gradient);
    }
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
  if (begin < 0 || length < 0 || length > x.dim(dim) - begin) {
    fail("slice", "range", "within [0, " + std::to_string(x.dim(dim)) + ")",
         std::to_string(length) + " from " + std::to_string(begin) + " on");
  }
  return record<Slice>(x, dim, begin, length);
}

Tensor concat(const std::vector<Tensor>& tensors, int dim) {
  if (tensors.empty()) fail("concat", "tensors", "at least one", "none");
  require_float("concat", "tensors[0]", tensors[0]);
  dim = require_dim("concat", tensors[0], dim);
  Shape shape = tensors[0].shape();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const std::string name = "tensors[" + std::to_string(i) + "]";
    require_like("concat", name, tensors[i], tensors[0]);
    Shape expected = tensors[0].shape();
    if (tensors[i].dims() == expected.dims()) expected[dim] = tensors[i].dim(dim);
    require_shape("concat", name, tensors[i], expected);
    shape[dim] += tensors[i].dim(dim);
  }
  return record<Concat>(tensors, dim, shape);
}

Tensor stack(const std::vector<Tensor>& tensors, int dim) {
  if (tensors.empty()) fail("stack", "tensors", "at least one", "none");
  require_float("stack", "tensors[0]", tensors[0]);
  const Shape shape = tensors[0].shape();
  const int dims = shape.dims() + 1, index = dim < 0 ? dim + dims : dim;
  if (dims > Shape::kMaxDims) {
    fail("stack", "tensors[0]", "at most " + std::to_string(Shape::kMaxDims - 1) + " dimensions", to_string(shape));
  }
  if (index < 0 || index >= dims) {
    fail("stack", "dim", "a dimension of the result's " + std::to_string(dims), std::to_string(dim));
  }
  std::vector<Size> sizes(shape.begin(), shape.end());
  sizes.insert(sizes.begin() + index, 1);
  const Shape of_one{std::span<const Size>(sizes)};
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string name = "tensors[" + std::to_string(i) + "]";
    require_like("stack", name, tensors[i], tensors[0]);
    require_shape("stack", name, tensors[i], shape);
    parts.push_back(reshape(tensors[i], of_one));
  }
  return concat(parts, index);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<Size>& sizes, int dim) {
  require_float("split", "x", x);
  dim = require_dim("split", x, dim);
  Size sum = 0;
  for (const Size size : sizes) {
    if (size < 0) fail("split", "sizes", "at least 0 each", std::to_string(size));
    sum += size;
  }
  if (sum != x.dim(dim)) fail("split", "sizes", "a sum of " + std::to_string(x.dim(dim)), std::to_string(sum));
  std::vector<Tensor> parts;
  Size begin = 0;
  for (const Size size : sizes) parts.push_back(slice(x, dim, begin, size)), begin += size;
  return parts;
}

}  // namespace lt::ops
