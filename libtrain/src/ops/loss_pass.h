// The data that an engine's pass and its losses exchange, behind LossOptions::pass.
#pragma once

#include <optional>

#include "libtrain/tensor/autograd.h"

namespace lt::ops {

struct LossPass {
  // The seed of backward(). If set, head_cross_entropy() computes its gradients in the forward pass, while the logits
  // exist; nullopt: in the backward pass.
  std::optional<LossGradient> gradient = {};
  // If not null, `gradient` applies only while *takes_gradients is true: while the parameters' gradients can be
  // written.
  const bool* takes_gradients = nullptr;

  // The slot of the first loss that computes its gradients in the forward pass. Later losses compute their gradients in
  // the backward pass. The gradients are right only if backward() starts from this loss.
  Slot started_from = {};
  // Set by every loss that has these options.
  bool is_used = false;
};

}  // namespace lt::ops
