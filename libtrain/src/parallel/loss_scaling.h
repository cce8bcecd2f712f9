// The loss scale of f16, in device memory. Other dtypes have no loss scale.
#pragma once

#include "kernels/step_numbers.h"
#include "libtrain/tensor/autograd.h"
#include "tensor/device_value.h"

namespace lt::parallel {

class LossScaling {
 public:
  LossScaling(DType dtype, Device device);

  // The gradient that starts a backward pass: `factor`, in f16 times the loss scale.
  LossGradient gradient(double factor) const;
  // Copies the step's scale to number[0].
  void copy_scale(const Tensor& number) const;
  kernels::LossScaleState* on_device() const { return state_.get(); }  // null for other dtypes than f16

  // For other dtypes than f16, read() returns a scale of 1, and write() does nothing.
  kernels::LossScaleState read() const;
  void write(const kernels::LossScaleState& state) const;

 private:
  tensor::DeviceValue<kernels::LossScaleState> state_;
};

}  // namespace lt::parallel
