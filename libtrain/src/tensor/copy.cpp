// Copies and fills tensors, also strided ones and across devices.
#include <string>

#include "device/copy_bytes.h"
#include "kernels/elementwise.h"
#include "libtrain/error.h"
#include "libtrain/tensor/autograd.h"
#include "libtrain/tensor/tensor.h"
#include "tensor/dispatch.h"
#include "tensor/read_bytes.h"

namespace lt {
namespace {

kernels::Strided strided_space(const Tensor& dst, const Tensor& src) {
  kernels::Strided space;
  space.dims = dst.dims();
  for (int i = 0; i < space.dims; ++i) {
    const auto k = static_cast<std::size_t>(i);
    space.sizes[k] = dst.dim(i), space.out[k] = dst.strides()[i], space.a[k] = src.strides()[i];
  }
  return space;
}

// Copies between devices move raw bytes. The source device converts the dtype and makes the values contiguous; the
// destination device applies dst's layout.
void copy_across(const Tensor& dst, const Tensor& src) {
  if (!src.is_contiguous() || src.dtype() != dst.dtype()) {
    const Tensor staged = Tensor::empty(src.shape(), dst.dtype(), src.device());
    copy(staged, src);
    return copy(dst, staged);
  }
  if (!dst.is_contiguous()) {
    const Tensor staged = Tensor::empty(dst.shape(), dst.dtype(), dst.device());
    copy(staged, src);
    return copy(dst, staged);
  }
  if (src.device() == kCpu) return device::copy_bytes(dst.device(), dst.data(), src.data(), dst.bytes());
  if (dst.device() != kCpu) {  // what uses the memory of dst already comes before the copy
    Event used;
    used.record(Stream::compute(dst.device()));
    Stream::compute(src.device()).wait(used);
  }
  tensor::read_bytes(src.device(), dst.data(), src.data(), dst.bytes());
}

}  // namespace

void copy(const Tensor& dst, const Tensor& src) {
  const bool on_meta = dst.device().is_meta() && src.device().is_meta();  // which may stand for different devices
  const bool across = dst.device() != src.device() && !on_meta;
  if (!(dst.shape() == src.shape()) || (across && (dst.device().is_meta() || src.device().is_meta()))) {
    throw UsageError("tensor", "cannot copy " + to_string(src.shape()) + " of " + to_string(src.device()) + " to " +
                                   to_string(dst.shape()) + " of " + to_string(dst.device()));
  }
  if (dst.dtype() != src.dtype() && !(is_floating(dst.dtype()) && is_floating(src.dtype()))) {
    throw UsageError("tensor", "copy: expected " + std::string(dtype_name(dst.dtype())) + ", got " +
                                   std::string(dtype_name(src.dtype())) + "; only floating dtypes convert");
  }
  if (dst.elements() == 0) return;
  detail::require_values(src), detail::require_values(dst);
  if (across) return copy_across(dst, src);
  if (dst.is_contiguous() && src.is_contiguous()) {
    tensor::dispatch(dst.device(), [&](auto stream) {
      kernels::convert(stream, dst.dtype(), dst.data(), src.dtype(), src.data(), dst.elements(), false);
    });
    return;
  }
  if (dst.dtype() != src.dtype()) {
    // A kernel either moves strided elements or converts contiguous ones: move, convert, move.
    const Tensor staged = Tensor::empty(src.shape(), src.is_contiguous() ? dst.dtype() : src.dtype(), src.device());
    copy(staged, src);
    return copy(dst, staged);
  }
  tensor::dispatch(dst.device(), [&](auto stream) {
    kernels::copy_strided(stream, dst.dtype(), strided_space(dst, src), dst.data(), src.data(), false);
  });
}

void fill_zero(const Tensor& dst) {
  detail::require_values(dst);
  if (!dst.is_contiguous()) return copy(dst, Tensor::zeros(dst.shape(), dst.dtype(), dst.device()));
  tensor::dispatch(dst.device(), [&](auto stream) { kernels::fill_zero(stream, dst.data(), dst.bytes()); });
}

void fill(const Tensor& dst, double value) {
  if (!is_floating(dst.dtype())) {
    throw UsageError("tensor", "fill: expected a floating dtype, got " + std::string(dtype_name(dst.dtype())));
  }
  detail::require_values(dst);
  if (!dst.is_contiguous())
    throw UsageError("tensor", "fill: expected a contiguous tensor, its shape is " + to_string(dst.shape()));
  tensor::dispatch(dst.device(),
                   [&](auto stream) { kernels::fill(stream, dst.dtype(), dst.data(), value, dst.elements()); });
}

}  // namespace lt
