// Causal attention on packed rows, and a variant with a cache of past keys and values.
#include "kernels/attention.h"

#include <cmath>

#include "kernels/limits.h"
#include "libtrain/memory/memory.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

kernels::AttentionShape shape_of(const Tensor& qkv, const Heads& heads, Size window) {
  return {qkv.dim(0), qkv.dim(1), heads.heads, heads.kv_heads, heads.head_dim, window};
}

// Returns the FLOPs of one matmul over the scores that the causal mask and the window leave: 2 D for each pair and
// head. Documents are not known on the host, so they do not reduce it.
double matmul_flops(const kernels::AttentionShape& shape) {
  return static_cast<double>(shape.B * shape.H) * visible_pairs(shape.T, shape.window) *
         static_cast<double>(2 * shape.D);
}

double scale_of(const Heads& heads) { return 1.0 / std::sqrt(static_cast<double>(heads.head_dim)); }

struct Attention final : Function {
  const char* name() const override { return "attention"; }

  Saved qkv_;
  Tensor out_, lse_, document_starts_;
  Heads heads_{};
  Size window_ = 0;

  Tensor forward(const Tensor& qkv, const Heads& heads, Size window, const Tensor& document_starts) {
    kernels::require_head_size(target_of(qkv.device()), heads.head_dim);
    qkv_ = qkv, heads_ = heads, window_ = window, document_starts_ = document_starts;
    const auto shape = shape_of(qkv, heads, window);
    const Tensor out = Tensor::empty(with_last(qkv, shape.H * shape.D), qkv.dtype(), qkv.device());
    profile::count_attention_forward(2 * matmul_flops(shape));
    lse_ = Tensor::empty({shape.B, shape.H, shape.T}, kernels::gradient_dtype(qkv.dtype()), qkv.device());
    tensor::dispatch(out.device(), [&](auto s) {
      kernels::attention_forward(s, {.dtype = out.dtype(),
                                     .shape = shape,
                                     .scale = scale_of(heads),
                                     .out_BTHD = out.data(),
                                     .lse_BHT = lse_.data(),
                                     .qkv = qkv.data(),
                                     .starts_BT = starts_of(document_starts)});
    });
    out_ = out.detach();
    return out;
  }

  void backward(const Tensor& dy) override {
    const Tensor& qkv = qkv_.get();
    const auto shape = shape_of(qkv, heads_, window_);
    profile::count_attention_backward(5 * matmul_flops(shape));
    const Tensor dqkv = Tensor::empty(qkv.shape(), qkv.dtype(), qkv.device());
    const bool deterministic = Context::current().kernels.deterministic;
    const Tensor workspace = [&] {
      const MemoryScope owner(MemoryOwner::workspace);
      const Size bytes = kernels::attention_backward_workspace(target_of(qkv.device()), qkv.dtype(), shape,
                                                               deterministic, document_starts_.defined());
      return Tensor::empty({bytes}, DType::u8, qkv.device());
    }();
    tensor::dispatch(dy.device(), [&](auto s) {
      kernels::attention_backward(s, {.dtype = qkv.dtype(),
                                      .shape = shape,
                                      .scale = scale_of(heads_),
                                      .dqkv = dqkv.data(),
                                      .dout_BTHD = dy.data(),
                                      .qkv = qkv.data(),
                                      .out_BTHD = out_.data(),
                                      .lse_BHT = lse_.data(),
                                      .workspace = workspace.data(),
                                      .deterministic = deterministic,
                                      .starts_BT = starts_of(document_starts_)});
    });
    qkv_.slot()->add(dqkv);
  }
};

void check_attention(std::string_view op, const Tensor& qkv, const Heads& heads, Size window) {
  require_packed_rows(op, qkv, heads);
  if (window < 0) fail(op, "window", "at least 0", std::to_string(window));
}

}  // namespace

Tensor attention(const Tensor& qkv, const Heads& heads, Size window, const Tensor& document_starts) {
  check_attention("attention", qkv, heads, window);
  require_document_starts("attention", document_starts, qkv.dim(0), qkv.dim(1), 0, qkv);
  return record<Attention>(qkv, heads, window, document_starts);
}

Tensor attention_cached(Tensor qkv, const Heads& heads, KvCache& cache, Size window, double rope_base,
                        const RopeScaling& scaling) {
  check_attention("attention_cached", qkv, heads, window);
  detail::require_values(qkv);
  if (rope_base > 0 && heads.head_dim % 2 != 0) {
    fail("attention_cached", "head_dim", "an even number", std::to_string(heads.head_dim));
  }
  kernels::require_head_size(target_of(qkv.device()), heads.head_dim);
  const auto shape = shape_of(qkv, heads, window);
  const Size past = cache.length, kv = shape.G * shape.D;
  require_like("attention_cached", "cache.k", cache.k, qkv);
  require_like("attention_cached", "cache.v", cache.v, qkv);
  const Size capacity = cache.k.dims() == 3 ? cache.k.dim(1) : 0;
  require_shape("attention_cached", "cache.k", cache.k, {shape.B, capacity, kv});
  require_shape("attention_cached", "cache.v", cache.v, {shape.B, capacity, kv});
  if (past < 0 || shape.T > capacity - past) {
    fail("attention_cached", "cache",
         "room for " + std::to_string(shape.T) + " tokens after " + std::to_string(past) + " of them",
         std::to_string(capacity));
  }
  if (cache.lengths.defined()) {
    require_i32("attention_cached", "cache.lengths", cache.lengths, qkv);
    require_shape("attention_cached", "cache.lengths", cache.lengths, {shape.B});
    if (shape.T != 1) fail("attention_cached", "qkv", "one token for each of cache.lengths", to_string(qkv.shape()));
  }
  if (rope_base > 0 && !qkv.is_sole_owner()) {  // rows are rotated in place
    const Tensor given = std::move(qkv);
    qkv = Tensor::empty(given.shape(), given.dtype(), given.device());
    copy(qkv, given);
  }
  const Tensor out = Tensor::empty(with_last(qkv, shape.H * shape.D), qkv.dtype(), qkv.device());
  const Tensor workspace = [&] {
    const MemoryScope owner(MemoryOwner::workspace);
    const Size bytes = kernels::attention_cached_workspace(target_of(qkv.device()), qkv.dtype(), shape);
    return Tensor::empty({bytes}, DType::u8, qkv.device());
  }();
  const auto numbers = [](const Tensor& x) { return x.defined() ? x.data<std::int32_t>() : nullptr; };
  tensor::dispatch(out.device(), [&](auto s) {
    kernels::attention_cached(s, {.dtype = out.dtype(),
                                  .shape = shape,
                                  .scale = scale_of(heads),
                                  .out_BTHD = out.data(),
                                  .qkv = qkv.data(),
                                  .k_cache = cache.k.data(),
                                  .v_cache = cache.v.data(),
                                  .capacity = capacity,
                                  .past = past,
                                  .past_B = numbers(cache.lengths),
                                  .rope_base = rope_base,
                                  .rope_scaling = scaling,
                                  .workspace = workspace.data()});
  });
  return out;
}

}  // namespace lt::ops
