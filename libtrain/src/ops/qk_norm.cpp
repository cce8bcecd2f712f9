// Normalises the query and key heads of packed rows (QK-norm).
#include "kernels/qk_norm.h"

#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct QkNorm final : Function {
  const char* name() const override { return "qk_norm"; }

  Saved qkv_, q_weight_, k_weight_;
  Tensor rstd_;
  Heads heads_{};

  kernels::QkNormShape shape() const { return {rows(qkv_.get()), heads_.heads, heads_.kv_heads, heads_.head_dim}; }

  Tensor forward(const Tensor& qkv, const Heads& heads, const Tensor& q_weight, const Tensor& k_weight, float eps) {
    qkv_ = qkv, q_weight_ = q_weight, k_weight_ = k_weight, heads_ = heads;
    const kernels::QkNormShape s = shape();
    rstd_ = Tensor::empty({s.rows, s.heads()}, kernels::gradient_dtype(qkv.dtype()), qkv.device());
    const Tensor y = Tensor::empty(qkv.shape(), qkv.dtype(), qkv.device());
    tensor::dispatch(y.device(), [&](auto stream) {
      kernels::qk_norm_forward(stream, {.dtype = y.dtype(),
                                        .shape = s,
                                        .y = y.data(),
                                        .rstd = rstd_.data(),
                                        .x = qkv.data(),
                                        .wq_D = q_weight.data(),
                                        .wk_D = k_weight.data(),
                                        .eps = eps});
    });
    return y;
  }

  void backward(const Tensor& dy) override {
    const Tensor &x = qkv_.get(), &wq = q_weight_.get(), &wk = k_weight_.get();
    GradientOutput dwq(q_weight_.slot(), kernels::gradient_dtype(dy.dtype())),
        dwk(k_weight_.slot(), kernels::gradient_dtype(dy.dtype()));
    tensor::dispatch(dy.device(), [&](auto stream) {
      kernels::qk_norm_backward(stream, {.dtype = dy.dtype(),
                                         .shape = shape(),
                                         .dx = dy.data(),  // in place
                                         .dwq_D = dwq.data(),
                                         .dwk_D = dwk.data(),
                                         .accumulate_dwq = dwq.accumulate(),
                                         .accumulate_dwk = dwk.accumulate(),
                                         .dy = dy.data(),
                                         .x = x.data(),
                                         .wq_D = wq.data(),
                                         .wk_D = wk.data(),
                                         .rstd = rstd_.data()});
    });
    dwq.finish(), dwk.finish();
    if (qkv_.slot()) qkv_.slot()->add(dy);
  }
};

}  // namespace

Tensor qk_norm(const Tensor& qkv, const Heads& heads, const Tensor& q_weight, const Tensor& k_weight, float eps) {
  require_packed_rows("qk_norm", qkv, heads);
  for (const auto& [name, weight] : {std::pair{"q_weight", &q_weight}, {"k_weight", &k_weight}}) {
    require_like("qk_norm", name, *weight, qkv);
    require_shape("qk_norm", name, *weight, {heads.head_dim});
  }
  require_distinct("qk_norm", {{"q_weight", &q_weight}, {"k_weight", &k_weight}});
  return record<QkNorm>(qkv, heads, q_weight, k_weight, eps);
}

}  // namespace lt::ops
