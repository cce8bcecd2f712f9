// Broadcasts shapes and tensors, and reduces gradients.
#include "ops/broadcast.h"

#include "kernels/reduce.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

// Returns the stride of `x` in the dimension `from_last`, counted from the end; 0 if x is broadcast there.
Size stride_in(const Tensor& x, int from_last) {
  return from_last <= x.dims() && x.dim(-from_last) != 1 ? x.strides()[-from_last] : 0;
}

}  // namespace

Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b, std::string_view argument) {
  Shape shape = a.dims() >= b.dims() ? a : b;
  for (int i = 1; i <= shape.dims(); ++i) {
    const Size da = i <= a.dims() ? a[-i] : 1, db = i <= b.dims() ? b[-i] : 1;
    if (da != db && da != 1 && db != 1)
      fail(op, argument, "a shape that broadcasts with " + to_string(a), to_string(b));
    shape[-i] = da == 1 ? db : da;
  }
  return shape;
}

kernels::Strided space_of(const Shape& shape, const Tensor& out, const Tensor& a, const Tensor& b) {
  kernels::Strided space;
  space.dims = shape.dims();
  for (int i = 1; i <= shape.dims(); ++i) {
    const auto k = static_cast<std::size_t>(shape.dims() - i);
    space.sizes[k] = shape[-i];
    space.out[k] = stride_in(out, i), space.a[k] = stride_in(a, i), space.b[k] = stride_in(b, i);
  }
  return space;
}

void reduce_to_slot(const Slot& slot, Tensor gradient) {
  for (int i = 0; i < gradient.dims(); ++i) {
    const int in_slot = i - (gradient.dims() - slot->shape.dims());
    if (gradient.dim(i) == 1 || (in_slot >= 0 && slot->shape[in_slot] == gradient.dim(i))) continue;
    const kernels::MiddleShape m = middle_of(gradient, i);
    Shape reduced = gradient.shape();
    reduced[i] = 1;
    const Tensor sum = Tensor::empty(reduced, kernels::gradient_dtype(gradient.dtype()), gradient.device());
    tensor::dispatch(sum.device(), [&](auto stream) {
      kernels::sum_middle(stream, sum.dtype(), sum.data(), gradient.dtype(), gradient.data(), m, false);
    });
    gradient = sum;
  }
  slot->add(gradient.view(slot->shape));
}

Tensor expanded(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  const auto space = space_of(shape, y, x, x);
  tensor::dispatch(y.device(),
                   [&](auto stream) { kernels::copy_strided(stream, y.dtype(), space, y.data(), x.data(), false); });
  return y;
}

}  // namespace lt::ops
