// The loss scale of f16 in device memory; without f16 there is none.
#pragma once

#include "kernels/step_numbers.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/tensor/autograd.h"
#include "tensor/device_value.h"

namespace lt {

class LossScaling {
 public:
  LossScaling(DType dtype, Device device);

  // What a backward pass is seeded with whose loss has the gradient `factor`.
  LossGradient gradient(double factor) const;
  // The step's scale goes to number[0].
  void copy_scale(const Tensor& number) const;
  kernels::LossScaleState* on_device() const { return state_.get(); }  // or null

  LossScale read() const;
  void write(const LossScale& scale) const;

 private:
  DeviceValue<kernels::LossScaleState> state_;
};

}  // namespace lt
