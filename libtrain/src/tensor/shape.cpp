// Shapes: sizes of up to Shape::kMaxDims dimensions.
#include <algorithm>

#include "libtrain/error.h"
#include "libtrain/tensor/tensor.h"

namespace lt {

Shape::Shape(std::span<const Size> dims) : dims_(static_cast<int>(dims.size())) {
  if (dims.size() > kMaxDims) {
    throw UsageError("tensor", "a shape has at most " + std::to_string(kMaxDims) + " dimensions, got " +
                                   std::to_string(dims.size()));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) throw UsageError("tensor", "a size cannot be negative, got " + std::to_string(dims[i]));
    sizes_[i] = dims[i];
  }
}

void Shape::throw_no_dimension(int i) const {
  throw UsageError("tensor", "expected a dimension of " + to_string(*this) + ", got " + std::to_string(i));
}

Size Shape::elements() const {
  Size matmul = 1;
  for (const Size size : *this) {
    if (size < 0) throw UsageError("tensor", "a size cannot be negative, got the shape " + to_string(*this));
    if (__builtin_mul_overflow(matmul, size, &matmul)) {
      throw UsageError("tensor", "a shape has at most 2^63 - 1 elements, " + to_string(*this) + " would have more");
    }
  }
  return matmul;
}

bool Shape::operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.dims(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace lt
