// Layers with parameters: thin modules over ops.
#pragma once

#include <utility>
#include <vector>

#include "libtrain/nn/module.h"
#include "libtrain/ops/ops.h"

namespace lt::nn {

// y = x W^T + b + residual; weight [out, in], bias [out]. If W holds several matrices, `parts` lists the rows of each.
class Linear : public Module {
 public:
  Linear(Size in, Size out, bool bias, Init init, std::vector<Size> parts = {})
      : weight_(add_parameter("weight", {out, in}, init)),
        bias_(bias ? &add_parameter("bias", {out}, Init::constant(0)) : nullptr) {
    weight_.set_matrix_rows(std::move(parts));
  }

  Tensor operator()(const Tensor& x, const Tensor& residual = {}) const {
    return ops::linear(x, weight(), bias(), residual);
  }
  const Tensor& weight() const { return weight_.tensor(); }
  Tensor bias() const { return bias_ != nullptr ? bias_->tensor() : Tensor(); }  // undefined if there is none

 private:
  Parameter& weight_;
  Parameter* bias_;
};

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

// A table [count, width] of vectors.
class Embedding : public Module {
 public:
  Embedding(Size count, Size width, Init init) : weight_(add_parameter("weight", {count, width}, init)) {}

  Tensor operator()(const Tensor& ids) const { return ops::embedding(weight_.tensor(), ids); }
  const Tensor& weight() const { return weight_.tensor(); }

 private:
  Parameter& weight_;
};

}  // namespace lt::nn
