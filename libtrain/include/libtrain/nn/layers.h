// Layers: modules that hold the parameters and call the operations of ops.h.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/nn/module.h"
#include "libtrain/ops/ops.h"

namespace lt {
namespace LT_API nn {

// The low-rank adapters of a linear layer. Rank 0: no adapters. Empty `shape.ranges`: all rows of the weight.
struct Adapter {
  Size rank = 0;
  ops::LowRank shape = {};
};

// y = x W^T + b + residual. x is [..., in], weight [out, in], bias [out], y and residual [..., out]. If W holds several
// matrices, `parts` lists the rows of each; the constructor throws UsageError if they do not add up to `out`.
// An adapter adds the low-rank term of ops::adapted_linear() to y. Its parameters are lora_A, whose initial values have
// PEFT's standard deviation (Kaiming, sqrt(5)), and lora_B, initially 0.
class Linear : public Module {
 public:
  Linear(Size in, Size out, bool bias, Init init, std::vector<Size> parts = {}, Adapter adapter = {})
      : weight_(add_parameter("weight", {out, in}, init)),
        bias_(bias ? &add_parameter("bias", {out}, Init::constant(0)) : nullptr),
        adapter_(std::move(adapter.shape)) {
    weight_.set_matrix_rows(std::move(parts));
    if (adapter.rank == 0) return;
    if (adapter_.ranges.empty()) adapter_.ranges = {{0, out}};
    std::vector<Size> rows;
    Size adapted = 0;
    for (const ops::RowRange& range : adapter_.ranges) rows.push_back(range.size), adapted += range.size;
    const auto count = static_cast<Size>(rows.size());
    lora_a_ =
        &add_parameter("lora_A", {count * adapter.rank, in}, Init::normal(1 / std::sqrt(3 * static_cast<float>(in))));
    lora_b_ = &add_parameter("lora_B", {adapted, adapter.rank}, Init::constant(0));
    lora_a_->set_matrix_rows(std::vector<Size>(rows.size(), adapter.rank));
    lora_b_->set_matrix_rows(std::move(rows));
  }

  Tensor operator()(const Tensor& x, const Tensor& residual = {}) const {
    if (!is_adapted()) return ops::linear(x, weight(), bias(), residual);
    return ops::adapted_linear(x, weight(), bias(), residual, lora_a_->tensor(), lora_b_->tensor(), adapter_);
  }
  bool is_adapted() const { return lora_a_ != nullptr; }
  const Tensor& weight() const { return weight_.tensor(); }
  Tensor bias() const { return bias_ != nullptr ? bias_->tensor() : Tensor(); }  // undefined if there is none

 private:
  Parameter& weight_;
  Parameter* bias_;
  Parameter *lora_a_ = nullptr, *lora_b_ = nullptr;  // null without an adapter
  ops::LowRank adapter_;
};

// ops::layer_norm() of x [..., width]. weight [width] is initially 1, bias [width] 0.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(Size width, float eps = 1e-5f)
      : weight_(add_parameter("weight", {width}, Init::constant(1))),
        bias_(add_parameter("bias", {width}, Init::constant(0))),
        eps_(eps) {}

  Tensor operator()(const Tensor& x) const { return ops::layer_norm(x, weight_.tensor(), bias_.tensor(), eps_); }

 private:
  Parameter &weight_, &bias_;
  float eps_;
};

// ops::rms_norm() of x [..., width]. weight [width] is initially 1.
class RmsNorm : public Module {
 public:
  explicit RmsNorm(Size width, float eps = 1e-5f)
      : weight_(add_parameter("weight", {width}, Init::constant(1))), eps_(eps) {}

  Tensor operator()(const Tensor& x) const { return ops::rms_norm(x, weight_.tensor(), eps_); }
  const Tensor& weight() const { return weight_.tensor(); }
  float eps() const { return eps_; }

 private:
  Parameter& weight_;
  float eps_;
};

// A table [count, width]. The call maps i32 ids [...] in [0, count) to rows [..., width].
class Embedding : public Module {
 public:
  Embedding(Size count, Size width, Init init) : weight_(add_parameter("weight", {count, width}, init)) {}

  Tensor operator()(const Tensor& ids) const { return ops::embedding(weight_.tensor(), ids); }
  const Tensor& weight() const { return weight_.tensor(); }

 private:
  Parameter& weight_;
};

}  // namespace nn
}  // namespace lt
