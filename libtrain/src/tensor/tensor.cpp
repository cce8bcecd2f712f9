// Tensor handles, their storage, and views.
#include "libtrain/tensor/tensor.h"

#include <cstring>
#include <optional>
#include <utility>

#include "device/copy_bytes.h"
#include "kernels/common.h"
#include "libtrain/error.h"
#include "libtrain/tensor/autograd.h"
#include "memory/allocation.h"
#include "profile/activity_clock.h"
#include "tensor/read_bytes.h"
#include "tensor/storage.h"

namespace lt {

struct Tensor::Impl {
  Shape shape, strides;
  DType dtype = DType::f32;
  Device device;
  std::shared_ptr<memory::Allocation> buffer;
  Size offset = 0;  // of the first element, bytes from the buffer's start
  std::shared_ptr<GradientSlot> gradient;
  tensor::TensorStorage::Recipe recipe;
  struct BoundRows {
    tensor::TensorStorage::Rows rows;
    std::function<void()> on_read;
  };
  std::optional<BoundRows> bound_rows;                             // in place of values
  bool had_values = false;                                         // which the recipe makes again
  std::string name;                                                // set by unbound()
  std::shared_ptr<const UnitBody> body = Context::current().body;  // that made the tensor
};

namespace {

[[noreturn]] void throw_too_large(const Shape& shape) {
  throw UsageError("tensor", "a tensor has at most 2^63 - 1 bytes, " + to_string(shape) + " would have more");
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  Size stride = 1;
  for (int i = shape.dims() - 1; i >= 0; --i) {
    strides[i] = stride;
    if (__builtin_mul_overflow(stride, shape[i], &stride)) throw_too_large(shape);
  }
  return strides;
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  require_device(device);
  auto impl = std::make_shared<Impl>();
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  impl->device = device;
  Size bytes = 0;
  if (__builtin_mul_overflow(shape.elements(), dtype_bytes(dtype), &bytes)) throw_too_large(shape);
  impl->buffer = std::make_shared<memory::Allocation>(bytes, device);
  return Tensor(std::move(impl));
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  fill_zero(tensor);
  return tensor;
}

Tensor Tensor::unbound(const Shape& shape, DType dtype, Device device, std::string name) {
  auto impl = std::make_shared<Impl>();
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  impl->device = device;
  impl->name = std::move(name);
  return Tensor(std::move(impl));
}

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape, Device device) {
  if (static_cast<Size>(values.size()) != shape.elements()) {
    throw UsageError("tensor", "shape " + lt::to_string(shape) + " has " + std::to_string(shape.elements()) +
                                   " elements, got " + std::to_string(values.size()));
  }
  Tensor tensor = empty(shape, dtype_of<T>, device);
  if (bool* const told = Context::current().makes_host_values; told != nullptr && device != kCpu) *told = true;
  if (!device.is_meta() && !values.empty()) {
    device::copy_bytes(device, tensor.data(), values.data(), static_cast<Size>(values.size_bytes()));
  }
  return tensor;
}
template Tensor Tensor::from(std::span<const float>, const Shape&, Device);
template Tensor Tensor::from(std::span<const double>, const Shape&, Device);
template Tensor Tensor::from(std::span<const bf16>, const Shape&, Device);
template Tensor Tensor::from(std::span<const f16>, const Shape&, Device);
template Tensor Tensor::from(std::span<const std::int32_t>, const Shape&, Device);

Tensor::Impl& Tensor::impl() const {
  if (impl_ == nullptr) throw UsageError("tensor", "expected a tensor, got none: it is not defined");
  return *impl_;
}

const Shape& Tensor::shape() const { return impl().shape; }
const Shape& Tensor::strides() const { return impl().strides; }
DType Tensor::dtype() const { return impl().dtype; }
Device Tensor::device() const { return impl().device; }

bool Tensor::is_contiguous() const {
  Size stride = 1;
  for (int i = dims() - 1; i >= 0; --i) {
    if (dim(i) != 1 && impl().strides[i] != stride) return elements() == 0;  // then strides do not matter
    stride *= dim(i);
  }
  return true;
}

void Tensor::require_values() const {
  if (impl().buffer == nullptr) {
    if (impl().bound_rows) impl().bound_rows->on_read();
    if (!impl().recipe.values) {
      if (impl().name.empty()) {
        throw InternalError("tensor",
                            "the values of a released tensor " + lt::to_string(impl().shape) + " are not here");
      }
      const bool in_pass = Context::current().forward != nullptr;
      throw UsageError("tensor",
                       "the values of " + impl().name + " " + lt::to_string(impl().shape) +
                           " are not here: its unit is not gathered at this point",
                       in_pass ? "loss() uses a parameter inside run() of its unit, or of a later unit that borrows it"
                               : "between steps, read parameters inside Engine::with_parameters()");
    }
    impl().buffer = std::make_shared<memory::Allocation>(elements() * dtype_bytes(impl().dtype), impl().device);
    std::optional<profile::ActivityScope> recompute;
    if (std::exchange(impl().had_values, true)) recompute.emplace(Activity::recompute);
    impl().recipe.values(*this);
  }
}

void* Tensor::data() const {
  require_numbers("return early where device().is_meta(): plans and rehearsals run on shapes alone");
  require_values();
  return impl().buffer->data() + impl().offset;
}

void* Tensor::data_or_null() const {
  if (!device().is_meta()) return data();
  require_values();
  return nullptr;
}

template <class T>
T* Tensor::data() const {
  if (impl().dtype != dtype_of<T>) {
    throw UsageError("tensor", "expected " + std::string(dtype_name(dtype_of<T>)) + " values, the tensor has " +
                                   std::string(dtype_name(impl().dtype)));
  }
  return static_cast<T*>(data());
}
template float* Tensor::data() const;
template double* Tensor::data() const;
template bf16* Tensor::data() const;
template f16* Tensor::data() const;
template std::int32_t* Tensor::data() const;
template std::uint8_t* Tensor::data() const;
template e4m3* Tensor::data() const;

void Tensor::require_numbers(const char* hint) const {
  if (!device().is_meta()) return;
  throw UsageError(
      "tensor",
      "cannot read the values of a meta tensor of shape " + lt::to_string(shape()) + ": expected a CPU or CUDA tensor",
      hint);
}

namespace {

constexpr const char* kNoBranches = "memory is planned by a run on shapes alone, so a model must not branch on values";

// Reads a tensor of element type From, which may be strided, and converts on the host. So it allocates nothing on the
// device, where memory may be a step's arena.
template <class From, class T>
void read_converted(const Tensor& tensor, std::vector<T>& to) {
  const int dims = tensor.dims();
  Size last = 0;  // of the elements in memory, from the first one of the tensor
  for (int i = 0; i < dims; ++i) last += (tensor.dim(i) - 1) * tensor.strides()[i];
  std::vector<From> raw(static_cast<std::size_t>(last + 1));
  tensor::read_bytes(tensor.device(), raw.data(), tensor.data(), static_cast<Size>(raw.size() * sizeof(From)));
  Shape index = tensor.shape();
  for (int i = 0; i < dims; ++i) index[i] = 0;
  Size at = 0;
  for (T& value : to) {
    value = static_cast<T>(raw[static_cast<std::size_t>(at)]);
    for (int i = dims - 1; i >= 0; --i) {
      at += tensor.strides()[i];
      if (++index[i] < tensor.dim(i)) break;
      at -= tensor.dim(i) * tensor.strides()[i];
      index[i] = 0;
    }
  }
}

}  // namespace

template <class T>
std::vector<T> Tensor::to_vector() const {
  require_numbers(kNoBranches);
  if (dtype() != dtype_of<T> && !(is_floating(dtype()) && is_floating(dtype_of<T>))) {
    throw UsageError("tensor", "to_vector: expected " + std::string(dtype_name(dtype_of<T>)) + ", got " +
                                   std::string(dtype_name(dtype())) + "; only floating dtypes convert");
  }
  std::vector<T> result(static_cast<std::size_t>(elements()));
  if (result.empty()) return result;
  if (dtype() == dtype_of<T> && is_contiguous()) {
    tensor::read_bytes(device(), result.data(), data(), bytes());
    return result;
  }
  switch (dtype()) {
    case DType::f64: read_converted<double>(*this, result); break;
    case DType::bf16: read_converted<bf16>(*this, result); break;
    case DType::f16: read_converted<f16>(*this, result); break;
    case DType::i32: read_converted<std::int32_t>(*this, result); break;
    default: read_converted<float>(*this, result);
  }
  return result;
}
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;

double Tensor::item() const {
  if (elements() != 1) throw UsageError("tensor", "item(): expected one element, got shape " + lt::to_string(shape()));
  require_numbers(kNoBranches);
  const auto read = [&]<class T>(T value) {
    tensor::read_bytes(device(), &value, data(), sizeof(T));
    return static_cast<double>(value);
  };
  switch (dtype()) {
    case DType::f32: return read(float{});
    case DType::f64: return read(double{});
    case DType::bf16: return read(bf16{});
    case DType::f16: return read(f16{});
    case DType::i32: return read(std::int32_t{});
    default: return to_vector<double>()[0];
  }
}

Tensor Tensor::view(const Shape& shape) const {
  if (!is_contiguous() || shape.elements() != elements()) {
    throw UsageError("tensor", "cannot view " + lt::to_string(this->shape()) + " as " + lt::to_string(shape));
  }
  Tensor result = detach();
  result.impl_->shape = shape;
  result.impl_->strides = contiguous_strides(shape);
  return result;
}

Tensor Tensor::narrow(int dim, Size begin, Size length) const {
  if (dim < 0) dim += dims();
  if (dim < 0 || dim >= dims() || begin < 0 || length < 0 || length > this->dim(dim) - begin) {
    throw UsageError("tensor", "cannot take " + std::to_string(length) + " from " + std::to_string(begin) +
                                   " of dimension " + std::to_string(dim) + " of " + lt::to_string(shape()));
  }
  Tensor result = detach();
  result.impl_->shape[dim] = length;
  result.impl_->offset += begin * strides()[dim] * dtype_bytes(dtype());
  return result;
}

Tensor Tensor::transposed(int dim0, int dim1) const {
  for (const int dim : {dim0, dim1}) {
    if (dim < -dims() || dim >= dims()) {
      throw UsageError("tensor", "cannot transpose dimensions " + std::to_string(dim0) + " and " +
                                     std::to_string(dim1) + " of " + lt::to_string(shape()));
    }
  }
  Tensor result = detach();
  std::swap(result.impl_->shape[dim0], result.impl_->shape[dim1]);
  std::swap(result.impl_->strides[dim0], result.impl_->strides[dim1]);
  return result;
}

Tensor Tensor::detach() const {
  require_values();
  auto impl = std::make_shared<Impl>();
  impl->shape = impl_->shape;
  impl->strides = impl_->strides;
  impl->dtype = impl_->dtype;
  impl->device = impl_->device;
  impl->buffer = impl_->buffer;
  impl->offset = impl_->offset;
  if (impl_->body != nullptr) impl->body = impl_->body;
  return Tensor(std::move(impl));
}

bool Tensor::is_bound() const { return impl().buffer != nullptr; }

bool Tensor::requires_grad() const { return impl_ != nullptr && impl_->gradient != nullptr; }

void Tensor::set_requires_grad() {
  if (!is_floating(dtype())) {
    throw UsageError("tensor", "set_requires_grad: expected a floating dtype, got " + std::string(dtype_name(dtype())));
  }
  if (impl().gradient != nullptr) return;
  impl().gradient =
      std::make_shared<GradientSlot>(GradientSlot{shape(), kernels::gradient_dtype(dtype()), device(), {}, false});
}

void Tensor::set_result_of_operation() {
  impl().gradient = std::make_shared<GradientSlot>(GradientSlot{shape(), dtype(), device(), {}, false});
  impl().gradient->of_result = true;
}

Tensor Tensor::gradient() const {
  return impl().gradient != nullptr && impl().gradient->written ? impl().gradient->value : Tensor();
}

const std::shared_ptr<GradientSlot>& Tensor::gradient_slot() const {
  static const std::shared_ptr<GradientSlot> none;
  return impl_ == nullptr ? none : impl_->gradient;
}

bool Tensor::is_sole_owner() const { return impl_.use_count() == 1 && impl().buffer.use_count() == 1; }

bool Tensor::shares_storage(const Tensor& other) const { return impl().buffer == other.impl().buffer; }

void Tensor::release_values() const {
  if (impl().recipe.values) impl().buffer.reset();
}

}  // namespace lt

namespace lt::tensor {

void TensorStorage::rebind(const Tensor& tensor, const Tensor& storage, Size offset) {
  Tensor::Impl& impl = *tensor.impl_;
  if (storage.dtype() != tensor.dtype() || !storage.is_contiguous() || offset < 0 ||
      offset + tensor.elements() > storage.elements()) {
    throw InternalError("tensor", impl.name + ": cannot bind " + std::to_string(tensor.elements()) + " elements at " +
                                      std::to_string(offset) + " of " + std::to_string(storage.elements()));
  }
  impl.buffer = storage.impl_->buffer;
  impl.offset = storage.impl_->offset + offset * dtype_bytes(tensor.dtype());
}

void TensorStorage::unbind(const Tensor& tensor) {
  tensor.impl_->buffer.reset();
  if (tensor.impl_->bound_rows) tensor.impl_->bound_rows.reset(), forget(tensor);
}

void TensorStorage::bind_rows(const Tensor& tensor, Rows rows, std::function<void()> on_read) {
  tensor.impl_->bound_rows = {std::move(rows), std::move(on_read)};
  tensor.impl_->recipe = {[](const Tensor&) {}};  // which makes it a deferred tensor
}

const TensorStorage::Rows* TensorStorage::rows(const Tensor& tensor) {
  return tensor.impl_->bound_rows ? &tensor.impl_->bound_rows->rows : nullptr;
}

void TensorStorage::set_recipe(const Tensor& tensor, std::function<void(const Tensor&)> recipe) {
  tensor.impl_->recipe.values = std::move(recipe);
  tensor.impl_->had_values = tensor.is_bound();
}

Tensor TensorStorage::deferred(const Shape& shape, DType dtype, Device device, Recipe recipe) {
  Tensor tensor = Tensor::unbound(shape, dtype, device, "");
  tensor.impl_->recipe = std::move(recipe);
  return tensor;
}

bool TensorStorage::is_deferred(const Tensor& tensor) {
  return tensor.defined() && !tensor.is_bound() && tensor.impl_->recipe.values;
}

bool TensorStorage::quantize(const Tensor& tensor, const Tensor& values, const Tensor& scales) {
  if (tensor.is_bound() || !tensor.impl_->recipe.quantized) return false;
  tensor.impl_->recipe.quantized(values, scales);
  return true;
}

void TensorStorage::forget(const Tensor& tensor) { tensor.impl_->recipe = {}; }

const std::shared_ptr<const UnitBody>& TensorStorage::body(const Tensor& tensor) { return tensor.impl_->body; }

void TensorStorage::set_body(const Tensor& tensor, std::shared_ptr<const UnitBody> body) {
  tensor.impl_->body = std::move(body);
}

}  // namespace lt::tensor
