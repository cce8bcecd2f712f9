// Layers: modules that hold the parameters and call the operations of ops.h. Each is made from its Options, as in
// add<nn::Linear>("up", {.in = 64, .out = 256}). The constructors throw UsageError for a size below 1. Initial weights
// have the standard deviation of PyTorch's unless stated otherwise.
#pragma once

#include <functional>
#include <optional>
#include <string>
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

// y = x W^T + b + residual. x is [..., in], weight [out, in], bias [out], y and residual [..., out].
// An adapter adds the low-rank term of ops::adapted_linear() to y. Its parameters are lora_A, whose initial values have
// PEFT's standard deviation (Kaiming, sqrt(5)), and lora_B, initially 0.
class Linear : public Module {
 public:
  struct Options {
    Size in = 0, out = 0;                     // channels of x and of y
    bool bias = true;                         // initially 0
    std::optional<Init> init = std::nullopt;  // of the weight; nullopt: deviation 1 / sqrt(3 in)
    // If W holds several matrices: the rows of each. The constructor throws UsageError if they do not add up to `out`.
    std::vector<Size> parts = {};
    Adapter adapter = {};
  };
  explicit Linear(Options options);

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

// A convolution over positions. x is [samples, length, in], y [samples, length, out], weight [out, kernel * in]:
//   y[s, t, o] = bias[o] + sum over k < kernel, c < in of weight[o, k * in + c] * x[s, t + k - left, c].
// PyTorch's weight [out, in, kernel] has the same numbers in another order. x counts as 0 outside of its positions;
// `left` follows from the padding. The call throws UsageError for another shape, and for an x that is shorter than the
// kernel unless it is padded.
class Conv1d : public Module {
 public:
  enum class Padding {
    none,    // left = 0; y has length - kernel + 1 positions
    same,    // left = (kernel - 1) / 2, rounded down
    causal,  // left = kernel - 1: a position sees itself and earlier ones
  };
  struct Options {
    Size in = 0, out = 0;  // channels of x and of y
    Size kernel = 0;       // positions that a position sees
    Padding padding = Padding::none;
    bool bias = true;                         // initially 0
    std::optional<Init> init = std::nullopt;  // of the weight; nullopt: deviation 1 / sqrt(3 kernel in)
  };
  explicit Conv1d(const Options& options);

  Tensor operator()(const Tensor& x) const;
  const Tensor& weight() const { return weight_.tensor(); }

 private:
  Size in_, kernel_;
  Padding padding_;
  Parameter& weight_;
  Parameter* bias_;  // null without one
};

// ops::layer_norm() of x [..., width]. weight [width] is initially 1, bias [width] 0.
class LayerNorm : public Module {
 public:
  struct Options {
    Size width = 0;
    float eps = 1e-5f;
  };
  explicit LayerNorm(const Options& options);

  Tensor operator()(const Tensor& x) const { return ops::layer_norm(x, weight_.tensor(), bias_.tensor(), eps_); }

 private:
  Parameter &weight_, &bias_;
  float eps_;
};

// ops::rms_norm() of x [..., width]. weight [width] is initially 1.
class RmsNorm : public Module {
 public:
  struct Options {
    Size width = 0;
    float eps = 1e-5f;
  };
  explicit RmsNorm(const Options& options);

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
  struct Options {
    Size count = 0, width = 0;
    Init init = Init::normal(1);
  };
  explicit Embedding(const Options& options);

  Tensor operator()(const Tensor& ids) const { return ops::embedding(weight_.tensor(), ids); }
  const Tensor& weight() const { return weight_.tensor(); }

 private:
  Parameter& weight_;
};

// nn::dropout() with the module's path() as its site. So each place in a model needs a Dropout of its own. The
// constructor throws UsageError unless p is in [0, 1), and a training step if the module is in no unit of a model.
class Dropout : public Module {
 public:
  struct Options {
    double p = 0.5;
  };
  explicit Dropout(const Options& options);

  Tensor operator()(const Tensor& x) const;

 private:
  double p_;
};

// A chain: the result of each stage is the input of the next. Its stages are appended in the constructor of the module
// that owns it, or in that of a derived class:
//   mlp(add<nn::Sequential>("mlp").append<nn::Linear>({.in = 8, .out = 32}).append(ops::relu))
class Sequential : public Module {
 public:
  using Function = std::function<Tensor(const Tensor&)>;

  // Appends a module of type M, which must have operator()(const Tensor&) const. Arguments are as in Module::add(). Its
  // name is the number of its stage, from 0.
  template <class M, class... Args>
  Sequential& append(Args&&... args) {
    return append_module(add<M>(next_name(), std::forward<Args>(args)...));
  }
  template <class M>
  Sequential& append(typename M::Options options) {
    return append_module(add<M>(next_name(), std::move(options)));
  }
  // Appends a function without parameters, such as ops::relu.
  Sequential& append(Function function) {
    stages_.push_back(std::move(function));
    return *this;
  }

  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (const Function& stage : stages_) y = stage(y);
    return y;
  }

 private:
  template <class M>
  Sequential& append_module(const M& module) {
    return append(Function([&module](const Tensor& x) { return module(x); }));
  }
  std::string next_name() const { return std::to_string(stages_.size()); }

  std::vector<Function> stages_;
};

}  // namespace nn
}  // namespace lt
