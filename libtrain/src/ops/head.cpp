// The language-model head and its cross-entropy, computed chunk by chunk: only one chunk's logits exist at a time.
// Their gradient overwrites them.
#include "ops/head.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/loss.h"
#include "kernels/reduce.h"
#include "libtrain/memory/memory.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "ops/linear_matmuls.h"
#include "ops/loss_pass.h"
#include "ops/targets.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

// How many logits exist at once, about: few enough on the CPU to stay in a cache, 512 MiB of bf16 on a GPU. A chunk has
// at least kMinRows rows, because each chunk reads the whole weight and updates its whole gradient.
constexpr Size kChunkElements = Size{1} << 17, kChunkElementsOnCuda = Size{1} << 28, kMinRows = 256;

struct HeadCrossEntropy final : Function {
  const char* name() const override { return "head_cross_entropy"; }

  Saved x_, weight_;
  Tensor targets_, lse_, target_weight_;
  kernels::LossTerms terms_;
  Tensor dx_;  // set if the forward pass computed the gradients
  bool computed_ = false;
  Size M_ = 0, V_ = 0, C_ = 0;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& targets, const LossOptions& options,
                 const kernels::IdCheck& check, const LossGradient* seed) {
    x_ = x, weight_ = weight, targets_ = targets, target_weight_ = weight_of(options, targets);
    terms_ = {options.z_loss, options.label_smoothing};
    M_ = rows(x), V_ = weight.dim(0), C_ = weight.dim(1);
    computed_ = seed != nullptr;
    const DType sums = kernels::gradient_dtype(x.dtype());
    const Tensor losses = Tensor::empty({M_}, sums, x.device());
    lse_ = Tensor::empty({M_}, sums, x.device());
    const Tensor loss = Tensor::empty({}, sums, x.device());
    if (computed_ && x.requires_grad()) dx_ = Tensor::empty(x.shape(), x.dtype(), x.device());
    for_each_chunk([&](Size begin, Size count, const Tensor& logits) {
      const kernels::CrossEntropyForward chunk{.dtype = x.dtype(),
                                               .M = count,
                                               .V = V_,
                                               .losses_M = row(losses, begin, 1),
                                               .lse_M = row(lse_, begin, 1),
                                               .logits_MV = logits.data_or_null(),
                                               .targets_M = targets.data_or_null<std::int32_t>() + begin,
                                               .terms = terms_,
                                               .check = check.after(begin)};
      if (!computed_) return tensor::dispatch(x.device(), [&](auto s) { kernels::cross_entropy_forward(s, chunk); });
      const kernels::CrossEntropyBackward gradient = logits_gradient(begin, count, logits, *seed);
      tensor::dispatch(x.device(), [&](auto s) { kernels::cross_entropy_in_place(s, chunk, gradient); });
      add_matmuls(begin, count, logits, dx_, false);
    });
    tensor::dispatch(x.device(), [&](auto s) {
      kernels::sum_all(s, sums, loss.data(), losses.data(), M_, 1.0 / static_cast<double>(M_),
                       weight_data(target_weight_));
    });
    return loss;
  }

  void backward(const Tensor& dy) override {
    if (computed_) {
      if (x_.slot() != nullptr) x_.slot()->add(std::move(dx_));
      return;
    }
    GradientTarget dx{};
    if (x_.slot() != nullptr) dx = x_.slot()->next();
    for_each_chunk([&](Size begin, Size count, const Tensor& logits) {
      const kernels::CrossEntropyBackward gradient = logits_gradient(begin, count, logits, {1, dy});
      tensor::dispatch(dy.device(), [&](auto s) { kernels::cross_entropy_backward(s, gradient); });
      add_matmuls(begin, count, logits, dx.dst, dx.accumulate);
    });
  }

  // Calls visit(begin, count, logits [count, V]) for each chunk of rows.
  template <class Visit>
  void for_each_chunk(Visit&& visit) {
    const Tensor &x = x_.get(), &weight = weight_.get();
    const Size chunk = head_chunk_rows(target_of(x.device()), M_, V_);
    const Tensor buffer = Tensor::empty({chunk, V_}, x.dtype(), x.device());
    for (Size begin = 0; begin < M_; begin += chunk) {
      const Size count = std::min(chunk, M_ - begin);
      const Tensor logits = buffer.narrow(0, 0, count);
      profile::count_traffic(logits.bytes());  // read for the losses
      multiply(x.device(), {.M = count,
                            .N = V_,
                            .K = C_,
                            .a = row(x, begin, C_),
                            .b = weight.data_or_null(),
                            .d = logits.data_or_null(),
                            .transpose_b = true,
                            .dtype = x.dtype(),
                            .out = x.dtype()});
      visit(begin, count, logits);
    }
  }

  // The pass that overwrites the logits of rows [begin, begin + count) with their gradient.
  kernels::CrossEntropyBackward logits_gradient(Size begin, Size count, const Tensor& logits,
                                                const LossGradient& seed) {
    profile::count_traffic(2 * logits.bytes());
    return {.dtype = logits.dtype(),
            .M = count,
            .V = V_,
            .dlogits_MV = logits.data_or_null(),
            .logits_MV = logits.data_or_null(),
            .lse_M = row(lse_, begin, 1),
            .targets_M = targets_.data_or_null<std::int32_t>() + begin,
            .d_loss = seed.scale.defined() ? seed.scale.data_or_null() : nullptr,
            .weight = weight_data(target_weight_),
            .scale = seed.factor / static_cast<double>(M_),
            .terms = terms_};
  }

  // Adds what the gradient of these rows' logits contributes to dW and dx.
  void add_matmuls(Size begin, Size count, const Tensor& dlogits, const Tensor& dx, bool accumulate_dx) {
    const Tensor &x = x_.get(), &weight = weight_.get();
    const DType dtype = x.dtype();
    if (weight_.slot() != nullptr) {
      const GradientTarget dw = weight_.slot()->next();
      multiply(x.device(), {.M = V_,
                            .N = C_,
                            .K = count,
                            .a = dlogits.data_or_null(),
                            .b = row(x, begin, C_),
                            .d = dw.dst.data_or_null(),
                            .transpose_a = true,
                            .dtype = dtype,
                            .out = dw.dst.dtype(),
                            .accumulate = dw.accumulate});
    }
    if (dx.defined()) {
      multiply(x.device(), {.M = count,
                            .N = C_,
                            .K = V_,
                            .a = dlogits.data_or_null(),
                            .b = weight.data_or_null(),
                            .d = row(dx, begin, C_),
                            .dtype = dtype,
                            .out = dx.dtype(),  // a leaf's gradient may be f32
                            .accumulate = accumulate_dx});
    }
  }

  // Returns the address of row `begin`; rows have `width` elements.
  static void* row(const Tensor& tensor, Size begin, Size width) {
    return static_cast<std::byte*>(tensor.data_or_null()) + begin * width * dtype_bytes(tensor.dtype());
  }
};

}  // namespace

Size head_chunk_rows(DeviceType device, Size M, Size V) {
  const Size elements = device == DeviceType::cuda ? kChunkElementsOnCuda : kChunkElements;
  return std::min(M, std::max(kMinRows, elements / V / 64 * 64));
}

Tensor head_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets, const LossOptions& options) {
  require_float("head_cross_entropy", "x", x);
  require_min_dims("head_cross_entropy", "x", x, 1);
  require_weight("head_cross_entropy", "weight", weight, x, x.dim(-1), "V");
  require_distinct("head_cross_entropy", {{"x", &x}, {"weight", &weight}});
  require_targets("head_cross_entropy", targets, "x", x, options);
  const kernels::IdCheck check =
      require_ids("head_cross_entropy", "targets", targets, weight.dim(0), options.may_ignore);
  LossPass* const pass = options.pass;
  const LossGradient* seed = pass != nullptr && pass->gradient ? &*pass->gradient : nullptr;
  if (seed != nullptr) seed->require_for(kernels::gradient_dtype(x.dtype()), x.device());
  const bool computes_gradients = seed != nullptr && pass->started_from == nullptr &&
                                  (pass->takes_gradients == nullptr || *pass->takes_gradients) &&
                                  Context::current().tape != nullptr && (x.requires_grad() || weight.requires_grad());
  if (!computes_gradients) seed = nullptr;
  Tensor loss = record<HeadCrossEntropy>(x, weight, targets, options, check, seed);
  if (computes_gradients) pass->started_from = loss.gradient_slot();
  return loss;
}

}  // namespace lt::ops
