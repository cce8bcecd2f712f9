// Comparisons, whose results are masks for where(). They have no gradient.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/elementwise.h"
#include "libtrain/ops/ops.h"
#include "ops/broadcast.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct Relation {
  const char* name;
  kernels::Comparison comparison;
};
// clang-format off
//                            name             less  equal  greater  unordered
constexpr Relation kLess{        "less",          {1,    0,     0,       0}};
constexpr Relation kLessEqual{   "less_equal",    {1,    1,     0,       0}};
constexpr Relation kGreater{     "greater",       {0,    0,     1,       0}};
constexpr Relation kGreaterEqual{"greater_equal", {0,    1,     1,       0}};
constexpr Relation kEqual{       "equal",         {0,    1,     0,       0}};
constexpr Relation kNotEqual{    "not_equal",     {1,    0,     1,       1}};
// clang-format on

void require_comparable(std::string_view op, std::string_view argument, const Tensor& tensor) {
  if (tensor.defined() && tensor.dtype() == DType::i32) return require_i32(op, argument, tensor, tensor);
  require_float(op, argument, tensor);
}

// `b` is undefined for a comparison with `number`.
Tensor mask(const Relation& relation, const Shape& shape, const Tensor& a, const Tensor& b, double number) {
  const OperationScope operation(relation.name);
  for (const Tensor* tensor : {&a, &b}) {
    if (tensor->defined()) detail::require_usable(*tensor), detail::require_values(*tensor);
  }
  const Tensor y = Tensor::empty(shape, DType::i32, a.device());
  const kernels::Strided space = space_of(shape, y, a, b.defined() ? b : a);
  tensor::dispatch(y.device(), [&](auto s) {
    kernels::compare(s, relation.comparison, a.dtype(), space, y.template data<std::int32_t>(), a.data(),
                     b.defined() ? b.data() : nullptr, number);
  });
  return y;
}

Tensor compare(const Relation& relation, const Tensor& a, const Tensor& b) {
  require_comparable(relation.name, "a", a);
  if (a.dtype() == DType::i32) {
    require_i32(relation.name, "b", b, a);
  } else {
    require_like(relation.name, "b", b, a);
  }
  return mask(relation, broadcast_shape(relation.name, a, b), a, b, 0);
}

Tensor compare(const Relation& relation, const Tensor& a, double b) {
  require_comparable(relation.name, "a", a);
  using Limits = std::numeric_limits<std::int32_t>;
  if (a.dtype() == DType::i32 && !(b >= Limits::min() && b <= Limits::max() && b == std::floor(b))) {
    fail(relation.name, "b", "an integer in the range of i32, as the elements of a", std::to_string(b));
  }
  return mask(relation, a.shape(), a, {}, b);
}

}  // namespace

Tensor less(const Tensor& a, const Tensor& b) { return compare(kLess, a, b); }
Tensor less(const Tensor& a, double b) { return compare(kLess, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compare(kLessEqual, a, b); }
Tensor less_equal(const Tensor& a, double b) { return compare(kLessEqual, a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return compare(kGreater, a, b); }
Tensor greater(const Tensor& a, double b) { return compare(kGreater, a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return compare(kGreaterEqual, a, b); }
Tensor greater_equal(const Tensor& a, double b) { return compare(kGreaterEqual, a, b); }
Tensor equal(const Tensor& a, const Tensor& b) { return compare(kEqual, a, b); }
Tensor equal(const Tensor& a, double b) { return compare(kEqual, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return compare(kNotEqual, a, b); }
Tensor not_equal(const Tensor& a, double b) { return compare(kNotEqual, a, b); }

}  // namespace lt::ops
