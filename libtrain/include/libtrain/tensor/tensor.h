// Tensor: a handle on shape, strides, dtype, device and shared storage. Copying a Tensor copies the handle, as with a
// shared_ptr. A tensor of the `meta` device has a shape and a size in bytes but no data.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::memory {
class Buffer;  // a block of device memory that returns to its allocator with its last owner
}
namespace lt::tensor {
struct TensorStorage;  // tensor/storage.h: operations for the engine and autograd only
}

namespace LT_API lt {

// Up to kMaxDims sizes, outermost first.
class Shape {
 public:
  static constexpr int kMaxDims = 6;

  Shape() = default;
  Shape(std::initializer_list<Size> dims) : Shape(std::span<const Size>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const Size> dims);

  int dims() const { return dims_; }
  // Negative i counts from the last dimension. Throws UsageError for a dimension that it does not have.
  Size operator[](int i) const { return sizes_[place(i)]; }
  Size& operator[](int i) { return sizes_[place(i)]; }
  // Product of all sizes; 1 for a scalar (no dimensions).
  Size elements() const;
  bool operator==(const Shape& other) const;
  const Size* begin() const { return sizes_.data(); }
  const Size* end() const { return sizes_.data() + dims_; }

 private:
  std::size_t place(int i) const {
    const int from_first = i < 0 ? i + dims_ : i;
    if (from_first < 0 || from_first >= dims_) throw_no_dimension(i);
    return static_cast<std::size_t>(from_first);
  }
  [[noreturn]] void throw_no_dimension(int i) const;

  int dims_ = 0;
  std::array<Size, kMaxDims> sizes_{};
};

// "[2, 3]".
std::string to_string(const Shape& shape);

struct GradientSlot;  // collects the gradient of a tensor (autograd.h)

class Tensor {
 public:
  // No tensor: defined() is false.
  Tensor() = default;

  // Uninitialised storage, counted for the owner of the current MemoryScope. Throws UsageError for a missing device.
  static Tensor empty(const Shape& shape, DType dtype, Device device = kCpu);
  static Tensor zeros(const Shape& shape, DType dtype, Device device = kCpu);
  // A tensor without storage so far, such as a parameter that an engine gathers and frees.
  static Tensor unbound(const Shape& shape, DType dtype, Device device, std::string name);
  // Values are copied; T is float, double, bf16, f16 or std::int32_t.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape, Device device = kCpu);
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = kCpu) {
    return from(std::span<const T>(values), shape, device);
  }

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  const Shape& strides() const;  // in elements
  int dims() const { return shape().dims(); }
  Size dim(int i) const { return shape()[i]; }
  Size elements() const { return shape().elements(); }
  Size bytes() const { return elements() * dtype_bytes(dtype()); }
  DType dtype() const;
  Device device() const;
  bool is_contiguous() const;

  // The address of the first element. Throws UsageError for a parameter that is not gathered at this point. Recomputes
  // values that were dropped for recomputation. Must not be called for meta tensors.
  void* data() const;
  template <class T>
  T* data() const;  // also checks the dtype
  // Copies all elements to the host, converted to T: float, double, or std::int32_t for i32. Other conversions of
  // integers throw UsageError.
  template <class T>
  std::vector<T> to_vector() const;
  // The only element of a one-element tensor, converted to double.
  double item() const;

  // Views without autograd on the same storage.
  Tensor view(const Shape& shape) const;  // contiguous tensors only; same number of elements
  Tensor narrow(int dim, Size begin, Size length) const;
  Tensor transposed(int dim0, int dim1) const;
  // The same storage without gradient history.
  Tensor detach() const;

  bool is_bound() const;

  // Recomputes values that were dropped, so that a view can share them. Throws as data() does.
  void require_values() const;

  // Autograd (see autograd.h). set_requires_grad() marks a leaf, which collects its gradient in f32 (f64 for f64).
  // Results of operations on it follow, with gradients of their own dtype.
  bool requires_grad() const;
  void set_requires_grad();
  void set_result_of_operation();
  // The gradient that backward() left in a leaf; undefined if nothing was written.
  Tensor gradient() const;
  const std::shared_ptr<GradientSlot>& gradient_slot() const;  // null without requires_grad()

  // Drops values that can be recomputed; the next data() recomputes them.
  void release_values() const;

  // Whether no other handle, view or saved tensor sees these values, so that their last user may overwrite them.
  bool is_sole_owner() const;

  // Whether both are handles on the same tensor.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  // Whether both tensors or views lie in the same block of memory.
  bool shares_storage(const Tensor& other) const;

 private:
  friend tensor::TensorStorage;
  void require_numbers() const;  // throws UsageError on meta
  struct Impl;
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Impl& impl() const;  // throws UsageError if there is no tensor
  std::shared_ptr<Impl> impl_;
};

// dst = src, converting between floating dtypes. Same shape; both may be views. Devices may differ, but both or none
// are meta.
void copy(const Tensor& dst, const Tensor& src);
// dst = 0.
void fill_zero(const Tensor& dst);
// Sets every element of `dst`, contiguous and of any floating dtype, to `value`.
void fill(const Tensor& dst, double value);

}  // namespace lt
