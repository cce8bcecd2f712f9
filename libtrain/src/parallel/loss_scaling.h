// The loss scale of f16, in device memory. It is not defined for other dtypes.
#pragma once

#include "kernels/step_numbers.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/tensor/autograd.h"
#include "tensor/device_value.h"

namespace lt {

class LossScaling {
 public:
  LossScaling(DType dtype, Device device);

  // The gradient that starts a backward pass: `factor`, times the loss scale in f16.
  LossGradient gradient(double factor) const;
  // Copies the step's scale to number[0].
  void copy_scale(const Tensor& number) const;
  bool is_defined() const { return state_.defined(); }
  kernels::LossScaleState* on_device() const { return state_.get(); }  // or null

  LossScale read() const;
  void write(const LossScale& scale) const;

 private:
  DeviceValue<kernels::LossScaleState> state_;
};

}  // namespace lt
