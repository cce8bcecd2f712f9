// The activations gelu, silu and swiglu. Their outputs are cheap to recompute from their inputs.
#include "kernels/elementwise.h"
#include "kernels/quantize.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "ops/quantized.h"
#include "tensor/dispatch.h"
#include "tensor/storage.h"

namespace lt::ops {
namespace {

// The kernels of one activation, for every device.
struct GeluKernels {
  static constexpr const char* kName = "gelu";
  static void forward(auto s, const Tensor& y, const Tensor& x) {
    kernels::gelu_forward(s, y.dtype(), y.data(), x.data(), y.elements());
  }
  static void backward(auto s, void* dx, bool accumulate, const Tensor& dy, const Tensor& x) {
    kernels::gelu_backward(s, dy.dtype(), dx, dy.data(), x.data(), dy.elements(), accumulate);
  }
  static void quantize(auto s, const Tensor& values, const Tensor& scales, const Tensor& x) {
    kernels::quantize_gelu(s, values.data<e4m3>(), scales.data<float>(), x.data<bf16>(), rows(x), x.dim(-1));
  }
  static void quantize_gradient(auto s, const Tensor& values, const Tensor& scales, const Tensor& dy, const Tensor& x) {
    kernels::quantize_gelu_backward(s, values.data<e4m3>(), scales.data<float>(), dy.data<bf16>(), x.data<bf16>(),
                                    rows(x), x.dim(-1));
  }
};

struct SiluKernels {
  static constexpr const char* kName = "silu";
  static void forward(auto s, const Tensor& y, const Tensor& x) {
    kernels::silu_forward(s, y.dtype(), y.data(), x.data(), y.elements());
  }
  static void backward(auto s, void* dx, bool accumulate, const Tensor& dy, const Tensor& x) {
    kernels::silu_backward(s, dy.dtype(), dx, dy.data(), x.data(), dy.elements(), accumulate);
  }
};

struct SwiGluKernels {
  static constexpr const char* kName = "swiglu";
  static void forward(auto s, const Tensor& y, const Tensor& x) {
    kernels::swiglu_forward(s, y.dtype(), y.data(), x.data(), rows(y), y.dim(-1));
  }
  static void backward(auto s, void* dx, bool accumulate, const Tensor& dy, const Tensor& x) {
    kernels::swiglu_backward(s, dy.dtype(), dx, dy.data(), x.data(), rows(dy), dy.dim(-1), accumulate);
  }
  static void quantize(auto s, const Tensor& values, const Tensor& scales, const Tensor& x) {
    kernels::quantize_swiglu(s, values.data<e4m3>(), scales.data<float>(), x.data<bf16>(), rows(x), x.dim(-1) / 2);
  }
  static void quantize_gradient(auto s, const Tensor& values, const Tensor& scales, const Tensor& dy, const Tensor& x) {
    kernels::quantize_swiglu_backward(s, values.data<e4m3>(), scales.data<float>(), dy.data<bf16>(), x.data<bf16>(),
                                      rows(dy), dy.dim(-1));
  }
};

// Whether matmuls in e4m3 can have an activation and its gradient without a pass between them.
template <class Kernels>
constexpr bool kQuantizes = requires {
  &Kernels::template quantize<CpuStream>;
};

// y = f(x). The gradient overwrites x's storage if nothing else needs its values.
template <class Kernels>
struct Activate final : Function {
  const char* name() const override { return Kernels::kName; }

  Saved x_;
  bool defers_ = false;  // y, and the gradient of x

  Tensor forward(const Tensor& x, const Shape& y_shape) {
    x_ = x;
    if constexpr (kQuantizes<Kernels>) {
      defers_ = x.dims() > 0 && should_defer(x, y_shape[-1]) && should_defer(x, x.dim(-1));
      if (defers_) return deferred_output(x, y_shape);
    }
    const Tensor y = Tensor::empty(y_shape, x.dtype(), x.device());
    recompute(y);
    return y;
  }

  bool is_cheap() const override { return true; }
  void recompute(const Tensor& y) override { write(y, x_.get()); }

  void backward(const Tensor& dy) override {
    if constexpr (kQuantizes<Kernels>) {
      if (defers_ && x_.slot() != nullptr) return x_.slot()->add(deferred_gradient(dy, x_.get().detach()));
    }
    GradientOutput dx(x_.slot(), dy.dtype(), x_.reusable());
    tensor::dispatch(dy.device(), [&](auto s) { Kernels::backward(s, dx.data(), dx.accumulate(), dy, x_.get()); });
    dx.finish();
  }

  static void write(const Tensor& y, const Tensor& x) {
    tensor::dispatch(y.device(), [&](auto s) { Kernels::forward(s, y, x); });
  }

  static Tensor deferred_output(const Tensor& x, const Shape& y_shape) {
    const auto write_values = [x](const Tensor& y) {
      x.require_values();
      write(y, x);
    };
    const auto write_quantized = [x](const Tensor& values, const Tensor& scales) {
      x.require_values();
      tensor::dispatch(values.device(), [&](auto s) { Kernels::quantize(s, values, scales, x); });
    };
    return tensor::TensorStorage::deferred(y_shape, x.dtype(), x.device(), {write_values, write_quantized});
  }

  // `x` has no slot, so that the slot does not own itself.
  static Tensor deferred_gradient(const Tensor& dy, const Tensor& x) {
    const auto write_values = [dy, x](const Tensor& dx) {
      tensor::dispatch(dx.device(), [&](auto s) { Kernels::backward(s, dx.data(), false, dy, x); });
    };
    const auto write_quantized = [dy, x](const Tensor& values, const Tensor& scales) {
      tensor::dispatch(values.device(), [&](auto s) { Kernels::quantize_gradient(s, values, scales, dy, x); });
    };
    return tensor::TensorStorage::deferred(x.shape(), x.dtype(), x.device(), {write_values, write_quantized});
  }
};

}  // namespace

Tensor gelu(const Tensor& x) {
  require_float("gelu", "x", x);
  return record<Activate<GeluKernels>>(x, x.shape());
}

Tensor silu(const Tensor& x) {
  require_float("silu", "x", x);
  return record<Activate<SiluKernels>>(x, x.shape());
}

Tensor swiglu(const Tensor& x) {
  require_float("swiglu", "x", x);
  require_min_dims("swiglu", "x", x, 1);
  if (x.dim(-1) % 2 != 0) fail("swiglu", "x", "an even last size [gate | up]", to_string(x.shape()));
  return record<Activate<SwiGluKernels>>(x, with_last(x, x.dim(-1) / 2));
}

}  // namespace lt::ops
