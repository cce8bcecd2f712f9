// The loss scale of f16 in device memory; without f16 there is none.
#pragma once

#include "kernels/step_numbers.h"
#include "libtrain/autograd.h"
#include "libtrain/engine.h"

namespace lt {

class LossScaling {
 public:
  LossScaling(DType dtype, Device device);

  // What a backward pass is seeded with whose loss has the gradient `factor`.
  LossGradient gradient(double factor) const;
  // The step's scale goes to number[0].
  void copy_scale(const Tensor& number) const;
  kernels::LossScaleState* on_device() const;  // or null

  LossScale read() const;
  void write(const LossScale& scale) const;

 private:
  Tensor state_;  // kernels::LossScaleState, or undefined
};

}  // namespace lt
