// The loss scale of f16, in device memory. It is not defined for other dtypes.
#pragma once

#include "kernels/step_numbers.h"
#include "libtrain/tensor/autograd.h"
#include "tensor/device_value.h"

namespace lt::parallel {

class LossScaling {
 public:
  LossScaling(DType dtype, Device device);

  // The gradient that starts a backward pass: `factor`, times the loss scale in f16.
  LossGradient gradient(double factor) const;
  // Copies the step's scale to number[0].
  void copy_scale(const Tensor& number) const;
  kernels::LossScaleState* on_device() const { return state_.get(); }  // or null

  // Where it is not defined, it reads as a scale of 1, and writing does nothing.
  kernels::LossScaleState read() const;
  void write(const kernels::LossScaleState& state) const;

 private:
  tensor::DeviceValue<kernels::LossScaleState> state_;
};

}  // namespace lt::parallel
