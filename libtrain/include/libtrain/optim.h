// AdamW and learning-rate schedules.
#pragma once

#include <string_view>

#include "libtrain/dtype.h"

namespace lt {

// Loshchilov & Hutter 2019. One step: m, v, bias correction, then w -= lr * (m̂ / (sqrt(v̂) + eps) + weight_decay * w);
// tensors of fewer than two dimensions are not decayed. `clip` bounds the global L2 norm of the mean gradient, 0 = off.
struct AdamW {
  float lr = 3e-4f;
  float beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f;
  float weight_decay = 0.1f;
  float clip = 1.0f;
};

enum class Decay { constant, cosine, linear, wsd };

// The learning rate of step n, from 1: lr * n / warmup up to warmup; then with p = (n - warmup) / (steps - warmup)
//   cosine: min_lr + (lr - min_lr) (1 + cos(pi p)) / 2 (Loshchilov & Hutter 2017),
//   linear: lr + (min_lr - lr) p,
//   wsd:    lr up to p = 0.9, then linearly to min_lr: over the last tenth of the steps after warmup (Hu et al. 2024),
//   constant: lr.
struct Schedule {
  Decay decay = Decay::constant;
  double lr = 3e-4, min_lr = 3e-5;
  Size warmup = 0, steps = 0;

  double at(Size step) const;
};

// Throws UsageError naming the schedules.
Decay find_decay(std::string_view name);

}  // namespace lt
