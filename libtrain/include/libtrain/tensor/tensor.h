// Tensor: a handle on shape, strides, dtype, device and shared storage. Copying a Tensor copies the handle, as with a
// shared_ptr. A tensor of the `meta` device has a shape and a size in bytes and no data.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt {

// Up to kMaxDims sizes, outermost first.
class Shape {
 public:
  static constexpr int kMaxDims = 6;

  Shape() = default;
  Shape(std::initializer_list<Size> dims) : Shape(std::span<const Size>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const Size> dims);

  int dims() const { return dims_; }
  // Negative i counts from the last dimension.
  Size operator[](int i) const { return sizes_[static_cast<std::size_t>(i < 0 ? i + dims_ : i)]; }
  Size& operator[](int i) { return sizes_[static_cast<std::size_t>(i < 0 ? i + dims_ : i)]; }
  // Product of all sizes; 1 for a scalar (no dimensions).
  Size elements() const;
  bool operator==(const Shape& other) const;
  const Size* begin() const { return sizes_.data(); }
  const Size* end() const { return sizes_.data() + dims_; }

 private:
  int dims_ = 0;
  std::array<Size, kMaxDims> sizes_{};
};

// "[2, 3]".
std::string to_string(const Shape& shape);

class Buffer;          // a block of device memory that returns to its allocator with its last owner
struct GradientSlot;   // where the gradient of a tensor gathers (autograd.h)
struct TensorStorage;  // src/tensor/storage.h: what the engine and autograd do beyond this interface

class Tensor {
 public:
  // No tensor: defined() is false.
  Tensor() = default;

  // Uninitialised storage of the current MemoryScope's owner. Throws UsageError for a device that is not there.
  static Tensor empty(const Shape& shape, DType dtype, Device device = kCpu);
  static Tensor zeros(const Shape& shape, DType dtype, Device device = kCpu);
  // A tensor that has no storage yet: a parameter that an engine gathers and frees.
  static Tensor unbound(const Shape& shape, DType dtype, Device device, std::string name);
  // Values are copied; T is float, double, bf16 or std::int32_t.
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

  // The first element. Throws InternalError for a tensor whose storage is not bound (a parameter that is not gathered);
  // recomputes the values first where they were dropped for recomputation. Never call it for meta tensors.
  void* data() const;
  template <class T>
  T* data() const;  // also checks the dtype
  // Copies all elements to the host, converted to T (float or double).
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

  // Recomputes values that were dropped, so that a view can share them; throws as data() does.
  void require_numbers() const;  // throws UsageError on meta
  void require_values() const;

  // Autograd (see autograd.h). A leaf is marked by set_requires_grad() and gathers its gradient in f32 (f64 for f64);
  // results of operations on it follow, with gradients of their own dtype.
  bool requires_grad() const;
  void set_requires_grad();
  void set_result_of_operation();
  // The gradient that backward() left in a leaf; undefined where nothing was written.
  Tensor gradient() const;
  const std::shared_ptr<GradientSlot>& gradient_slot() const;  // null without requires_grad()

  // Lets go of values that can be recomputed, which the next data() does.
  void release_values() const;

  // No other handle, view or saved tensor sees these values: whoever is done with them may write over them.
  bool is_sole_owner() const;

  // Two handles on the same tensor.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  // Two tensors, or views, in the same block of memory.
  bool shares_storage(const Tensor& other) const;

 private:
  friend TensorStorage;
  struct Impl;
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

// dst = src, converting the dtype. Same shape and device; both may be views.
void copy(const Tensor& dst, const Tensor& src);
// dst = 0.
void fill_zero(const Tensor& dst);
// Every element of `dst`, contiguous and f32, f64 or bf16, becomes `value`.
void fill(const Tensor& dst, double value);

}  // namespace lt
