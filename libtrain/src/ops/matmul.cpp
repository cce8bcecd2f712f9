// The general matmul. If the right factor has no leading dimensions, all batch items share it.
#include "kernels/gemm.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct MatMul final : Function {
  const char* name() const override { return "matmul"; }

  Saved a_, b_;
  bool shared_b_ = false;
  Size batch_ = 1, M_ = 0, N_ = 0, K_ = 0;

  Tensor forward(const Tensor& a, const Tensor& b) {
    a_ = a, b_ = b;
    shared_b_ = b.dims() == 2;
    K_ = a.dim(-1), N_ = b.dim(-1), M_ = a.dim(-2);
    for (int i = 0; i + 2 < a.dims(); ++i) batch_ *= a.dim(i);
    if (shared_b_) M_ *= batch_, batch_ = 1;
    const Tensor y = Tensor::empty(with_last(a, N_), a.dtype(), a.device());
    run({.M = M_, .N = N_, .K = K_, .stride_a = M_ * K_, .stride_b = K_ * N_, .stride_d = M_ * N_}, y, a, b, false);
    return y;
  }

  void run(kernels::Gemm g, const Tensor& d, const Tensor& a, const Tensor& b, bool accumulate) const {
    profile::count_matmul(g.M, g.N, g.K, batch_);
    g.batch = batch_, g.dtype = a.dtype(), g.out = d.dtype(), g.accumulate = accumulate;
    g.settings = Context::current().kernels;
    tensor::dispatch(d.device(), [&](auto stream) {
      g.a = a.data(), g.b = b.data(), g.d = d.data();
      kernels::gemm(stream, g);
    });
  }

  // dA = dY B^T, dB = A^T dY.
  void backward(const Tensor& dy) override {
    if (b_.slot() != nullptr) {
      const GradientTarget db = b_.slot()->next();
      run({.M = K_,
           .N = N_,
           .K = M_,
           .transpose_a = true,
           .stride_a = M_ * K_,
           .stride_b = M_ * N_,
           .stride_d = K_ * N_},
          db.dst, a_.get(), dy, db.accumulate);
    }
    if (a_.slot() != nullptr) {
      const GradientTarget da = a_.slot()->next();
      run({.M = M_,
           .N = K_,
           .K = N_,
           .transpose_b = true,
           .stride_a = M_ * N_,
           .stride_b = K_ * N_,
           .stride_d = M_ * K_},
          da.dst, dy, b_.get(), da.accumulate);
    }
  }
};

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  require_float("matmul", "a", a);
  require_like("matmul", "b", b, a);
  require_min_dims("matmul", "a", a, 2);
  require_min_dims("matmul", "b", b, 2);
  Shape expected = b.dims() == 2 ? b.shape() : a.shape();
  expected[-2] = a.dim(-1), expected[-1] = b.dim(-1);
  require_shape("matmul", "b", b, expected);
  return record<MatMul>(a, b);
}

}  // namespace lt::ops
