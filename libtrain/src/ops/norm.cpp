// layer_norm and rms_norm over the last dimension. Their outputs are cheap to recompute from their inputs.
#include "kernels/norm.h"
#include "kernels/quantize.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "ops/quantized.h"
#include "tensor/dispatch.h"
#include "tensor/storage.h"

namespace lt::ops {
namespace {

// The output of a norm that other operations may take quantized. A copy of the norm stays with it.
template <class Norm>
Tensor deferred(const Norm& norm) {
  const auto copy = std::make_shared<Norm>(norm);
  const Tensor& x = norm.x_.get();
  return tensor::TensorStorage::deferred(
      x.shape(), x.dtype(), x.device(),
      {.values = [copy](const Tensor& y) { copy->recompute(y); },
       .quantized = [copy](const Tensor& values, const Tensor& scales) { copy->quantize(values, scales); }});
}

Tensor statistics(const Tensor& x) { return Tensor::empty({rows(x)}, kernels::gradient_dtype(x.dtype()), x.device()); }

struct LayerNorm final : Function {
  const char* name() const override { return "layer_norm"; }

  Saved x_, weight_, bias_;
  Tensor mean_, rstd_;
  float eps_ = 0;
  bool defers_ = false;  // y; then all its makers write the same bits

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps) {
    x_ = x, weight_ = weight, eps_ = eps, bias_ = bias;
    mean_ = statistics(x), rstd_ = statistics(x);
    defers_ = should_defer(x, x.dim(-1));
    if (defers_) return deferred(*this);
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    recompute(y);
    return y;
  }

  bool is_cheap() const override { return true; }
  void recompute(const Tensor& y) override {
    const kernels::LayerNormForward norm = call(y.data_or_null());
    tensor::dispatch(y.device(), [&](auto s) {
      defers_ ? kernels::write_layer_norm(s, norm) : kernels::layer_norm_forward(s, norm);
    });
  }
  void quantize(const Tensor& values, const Tensor& scales) const {
    const kernels::LayerNormForward norm = call(nullptr);
    tensor::dispatch(values.device(),
                     [&](auto s) { kernels::quantize_layer_norm(s, values.data<e4m3>(), scales.data<float>(), norm); });
  }
  kernels::LayerNormForward call(void* y) const {
    const Tensor& x = x_.get();
    return {.dtype = x.dtype(),
            .R = rows(x),
            .C = x.dim(-1),
            .y_RC = y,
            .mean_R = mean_.data_or_null(),
            .rstd_R = rstd_.data_or_null(),
            .x_RC = x.data_or_null(),
            .w_C = weight_.get().data_or_null(),
            .b_C = bias_.defined() ? bias_.get().data_or_null() : nullptr,
            .eps = eps_};
  }

  void backward(const Tensor& dy) override {
    const Tensor &x = x_.get(), &w = weight_.get();
    const DType dtype = dy.dtype();
    GradientOutput dw(weight_.slot(), kernels::gradient_dtype(dtype)), db(bias_.slot(), kernels::gradient_dtype(dtype)),
        dx(x_.slot(), dtype);
    tensor::dispatch(dy.device(), [&](auto s) {
      kernels::layer_norm_backward(s, {.dtype = dtype,
                                       .R = rows(x),
                                       .C = x.dim(-1),
                                       .dx_RC = dx.data(),
                                       .dw_C = dw.data(),
                                       .db_C = db.data(),
                                       .accumulate_dx = dx.accumulate(),
                                       .accumulate_dw = dw.accumulate(),
                                       .accumulate_db = db.accumulate(),
                                       .dy_RC = dy.data(),
                                       .x_RC = x.data(),
                                       .w_C = w.data(),
                                       .mean_R = mean_.data(),
                                       .rstd_R = rstd_.data()});
    });
    dw.finish(), db.finish(), dx.finish();
  }
};

struct RmsNorm final : Function {
  const char* name() const override { return "rms_norm"; }

  Saved x_, weight_;
  Tensor rstd_;
  float eps_ = 0;
  bool defers_ = false;  // y; then all its makers write the same bits

  Tensor forward(const Tensor& x, const Tensor& weight, float eps) {
    x_ = x, weight_ = weight, eps_ = eps;
    rstd_ = statistics(x);
    defers_ = should_defer(x, x.dim(-1));
    if (defers_) return deferred(*this);
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    recompute(y);
    return y;
  }

  bool is_cheap() const override { return true; }
  void recompute(const Tensor& y) override {
    const kernels::RmsNormForward norm = call(y.data_or_null());
    tensor::dispatch(y.device(),
                     [&](auto s) { defers_ ? kernels::write_rms_norm(s, norm) : kernels::rms_norm_forward(s, norm); });
  }
  void quantize(const Tensor& values, const Tensor& scales) const {
    const kernels::RmsNormForward norm = call(nullptr);
    tensor::dispatch(values.device(),
                     [&](auto s) { kernels::quantize_rms_norm(s, values.data<e4m3>(), scales.data<float>(), norm); });
  }
  kernels::RmsNormForward call(void* y) const {
    const Tensor& x = x_.get();
    return {.dtype = x.dtype(),
            .R = rows(x),
            .C = x.dim(-1),
            .y_RC = y,
            .rstd_R = rstd_.data_or_null(),
            .x_RC = x.data_or_null(),
            .w_C = weight_.get().data_or_null(),
            .eps = eps_};
  }

  void backward(const Tensor& dy) override {
    const Tensor &x = x_.get(), &w = weight_.get();
    const DType dtype = dy.dtype();
    GradientOutput dw(weight_.slot(), kernels::gradient_dtype(dtype)), dx(x_.slot(), dtype);
    tensor::dispatch(dy.device(), [&](auto s) {
      kernels::rms_norm_backward(s, {.dtype = dtype,
                                     .R = rows(x),
                                     .C = x.dim(-1),
                                     .dx_RC = dx.data(),
                                     .dw_C = dw.data(),
                                     .accumulate_dx = dx.accumulate(),
                                     .accumulate_dw = dw.accumulate(),
                                     .dy_RC = dy.data(),
                                     .x_RC = x.data(),
                                     .w_C = w.data(),
                                     .rstd_R = rstd_.data()});
    });
    dw.finish(), dx.finish();
  }
};

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps) {
  check_norm("layer_norm", "weight", x, weight);
  if (bias.defined()) {
    require_like("layer_norm", "bias", bias, x);
    require_shape("layer_norm", "bias", bias, {x.dim(-1)});
  }
  require_distinct("layer_norm", {{"x", &x}, {"weight", &weight}, {"bias", &bias}});
  return record<LayerNorm>(x, weight, bias, eps);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, float eps) {
  check_norm("rms_norm", "weight", x, weight);
  require_distinct("rms_norm", {{"x", &x}, {"weight", &weight}});
  return record<RmsNorm>(x, weight, eps);
}

}  // namespace lt::ops
