// Tensor: a handle on shape, strides, dtype, device and shared storage. Copying a Tensor copies the handle, as with a
// shared_ptr. A tensor on the `meta` device has a shape and a size in bytes but no data.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::memory {
class Allocation;  // a block of device memory; returns to its allocator when its last owner is destroyed
}
namespace lt::tensor {
struct TensorStorage;  // tensor/storage.h: access to storage for the engine and autograd only
}

namespace LT_API lt {

// Up to kMaxDims sizes, outermost first. The constructors throw UsageError for more sizes, for a negative size and for
// one above 2^63 - 1.
class Shape {
 public:
  static constexpr int kMaxDims = 6;

  // A size in a brace list, of any integer type: Shape{values.size(), 3}.
  struct AnySize {
    template <std::integral T>
    requires(!std::same_as<T, bool>) AnySize(T size) : value(static_cast<Size>(size)) {
      if constexpr (std::is_unsigned_v<T>) {
        if (value < 0) throw_too_large(size);
      }
    }
    Size value;

   private:
    [[noreturn]] static void throw_too_large(std::uint64_t size);
  };

  Shape() = default;
  Shape(std::initializer_list<AnySize> sizes);
  explicit Shape(std::span<const Size> sizes);

  int dims() const { return dims_; }
  // A negative i counts from the end: -1 is the last dimension. Throws UsageError if there is no dimension i.
  Size operator[](int i) const { return sizes_[place(i)]; }
  Size& operator[](int i) { return sizes_[place(i)]; }
  // Product of all sizes; 1 for a scalar (no dimensions). Throws UsageError above 2^63 - 1.
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
  // Makes an undefined tensor: defined() is false, and most other members throw UsageError.
  Tensor() = default;

  // Allocates uninitialised storage. The ledger (memory.h) counts it for the owner of the current MemoryScope. Throws
  // UsageError if the device does not exist, and for more than 2^63 - 1 bytes.
  static Tensor empty(const Shape& shape, DType dtype, Device device = kCpu);
  static Tensor zeros(const Shape& shape, DType dtype, Device device = kCpu);
  // Makes a tensor without storage, such as a parameter that an engine gathers and frees. Errors mention `name`.
  static Tensor unbound(const Shape& shape, DType dtype, Device device, std::string name);
  // Copies the values. T is float, double, bf16, f16 or std::int32_t. Throws UsageError if the number of values is not
  // shape.elements().
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

  // Returns the address of the first element. If values were dropped for recomputation, recomputes them first. Throws
  // UsageError for an engine's parameter that is not gathered now, and for a meta tensor. Code that computes with the
  // address must return early where device().is_meta(): plans and rehearsals run it on shapes alone.
  void* data() const;
  template <class T>
  T* data() const;  // throws UsageError if T is not the element type
  // Like data(), but null for a meta tensor: for arguments of a kernel that is then not launched.
  void* data_or_null() const;
  template <class T>
  T* data_or_null() const {
    return device().is_meta() ? static_cast<T*>(data_or_null()) : data<T>();
  }
  // Copies all elements to the host and waits for the copy. Floating dtypes convert to float or double, on the host;
  // i32 requires std::int32_t. Throws UsageError for other conversions and for meta tensors.
  template <class T>
  std::vector<T> to_vector() const;
  // Returns the element of a one-element tensor as double, and waits for it. Throws UsageError for another number of
  // elements and for meta tensors.
  double item() const;

  // Views on the same storage. Autograd does not record them. They throw UsageError for arguments that do not fit.
  Tensor view(const Shape& shape) const;  // contiguous tensors only; same number of elements
  Tensor narrow(int dim, Size begin, Size length) const;
  Tensor transposed(int dim0, int dim1) const;
  // Returns a tensor on the same storage without gradient history.
  Tensor detach() const;

  // True if the tensor has storage now.
  bool is_bound() const;

  // Recomputes dropped values, so that a view can share them. Throws as data() does.
  void require_values() const;

  // Autograd (see autograd.h). set_requires_grad() marks a leaf, which collects its gradient in f32 (f64 for f64), and
  // throws UsageError unless the dtype is floating. The result of an operation on a leaf requires a gradient too, in
  // the result's own dtype.
  bool requires_grad() const;
  void set_requires_grad();
  void set_result_of_operation();  // for record() in autograd.h
  // Returns the gradient that backward() wrote for a leaf; undefined if it wrote none.
  Tensor gradient() const;
  const std::shared_ptr<GradientSlot>& gradient_slot() const;  // null unless requires_grad()

  // Drops the values if they can be recomputed. The next data() recomputes them.
  void release_values() const;

  // True if no other handle, view or saved tensor uses these values, so the caller may overwrite them.
  bool is_sole_owner() const;

  // True if both are handles on the same tensor.
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  // True if both tensors or views lie in the same block of memory.
  bool shares_storage(const Tensor& other) const;

 private:
  friend tensor::TensorStorage;
  void require_numbers(const char* hint) const;  // throws UsageError on meta
  struct Impl;
  explicit Tensor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Impl& impl() const;  // throws UsageError if undefined
  std::shared_ptr<Impl> impl_;
};

// Copies `src` to `dst`, which has the same shape, and converts between floating dtypes. Both may be views. Devices may
// differ, but a meta tensor copies only to a meta tensor. Throws UsageError for other arguments.
void copy(const Tensor& dst, const Tensor& src);
// Sets every element to zero, for any dtype and any strides.
void fill_zero(const Tensor& dst);
// Sets every element to `value`. Throws UsageError unless `dst` is contiguous and of a floating dtype.
void fill(const Tensor& dst, double value);

}  // namespace lt
