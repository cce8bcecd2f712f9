// Rotary embedding of packed rows. It works in place if the caller passes the only handle of the tensor. Backward
// applies the inverse rotation to the gradient in place.
#include "kernels/rope.h"

#include "kernels/limits.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct Rope final : Function {
  const char* name() const override { return "rope"; }

  Slot qkv_;
  Heads heads_{};
  double base_ = 0;
  RopeScaling scaling_;
  Size first_ = 0;
  Tensor document_starts_;

  Tensor forward(const Tensor& qkv, const Heads& heads, double base, Size first, const RopeScaling& scaling,
                 const Tensor& document_starts) {
    qkv_ = qkv.gradient_slot(), heads_ = heads, base_ = base, first_ = first, scaling_ = scaling;
    document_starts_ = document_starts;
    const Tensor y = qkv.is_sole_owner() ? qkv.detach() : Tensor::empty(qkv.shape(), qkv.dtype(), qkv.device());
    rotate(y, qkv, false);
    return y;
  }

  void rotate(const Tensor& y, const Tensor& x, bool inverse) const {
    tensor::dispatch(y.device(), [&](auto s) {
      kernels::rope(s, {.dtype = y.dtype(),
                        .B = x.dim(0),
                        .T = x.dim(1),
                        .row = x.dim(2),
                        .heads = heads_.heads + heads_.kv_heads,
                        .D = heads_.head_dim,
                        .y_BTrow = y.data(),
                        .x_BTrow = x.data(),
                        .base = base_,
                        .first = first_,
                        .inverse = inverse,
                        .scaling = scaling_,
                        .starts_BT = starts_of(document_starts_)});
    });
  }

  void backward(const Tensor& dy) override {
    rotate(dy, dy, true);
    qkv_->add(dy);
  }
};

}  // namespace

Tensor rope(Tensor qkv, const Heads& heads, double base, Size first, const RopeScaling& scaling,
            const Tensor& document_starts) {
  require_packed_rows("rope", qkv, heads);
  if (heads.head_dim % 2 != 0) fail("rope", "head_dim", "an even number", std::to_string(heads.head_dim));
  kernels::require_rotated_channels(target_of(qkv.device()), heads.head_dim);
  if (first < 0) fail("rope", "first", "at least 0", std::to_string(first));
  require_document_starts("rope", document_starts, qkv.dim(0), qkv.dim(1), first, qkv);
  return record<Rope>(qkv, heads, base, first, scaling, document_starts);
}

}  // namespace lt::ops
