// Shapes: sizes of up to Shape::kMaxDims dimensions.
#include <algorithm>

#include "libtrain/error.h"
#include "libtrain/tensor/tensor.h"

namespace lt {

namespace {

void require_dims(std::size_t count) {
  if (count <= Shape::kMaxDims) return;
  throw UsageError(
      "tensor", "a shape has at most " + std::to_string(Shape::kMaxDims) + " dimensions, got " + std::to_string(count));
}

Size require_size(Size size) {
  if (size < 0) throw UsageError("tensor", "a size cannot be negative, got " + std::to_string(size));
  return size;
}

}  // namespace

void Shape::AnySize::throw_too_large(std::uint64_t size) {
  throw UsageError("tensor", "a size is at most 2^63 - 1, got " + std::to_string(size));
}

Shape::Shape(std::initializer_list<AnySize> sizes) : dims_(static_cast<int>(sizes.size())) {
  require_dims(sizes.size());
  std::transform(sizes.begin(), sizes.end(), sizes_.begin(), [](AnySize size) { return require_size(size.value); });
}

Shape::Shape(std::span<const Size> sizes) : dims_(static_cast<int>(sizes.size())) {
  require_dims(sizes.size());
  std::transform(sizes.begin(), sizes.end(), sizes_.begin(), require_size);
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
