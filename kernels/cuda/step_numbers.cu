// Computes the numbers of a step on the GPU, in one thread.
#include "kernels/step_numbers.h"

#include "kernels/cuda/common.cuh"
#include "kernels/step_numbers_of.h"

namespace lt::kernels {
namespace {

__global__ void step_numbers_kernel(const __grid_constant__ StepNumbersOf step) {
  double sum = 0;
  for (Size i = 0; i < step.n; ++i) sum += step.partials_n[i];
  fill_numbers(step, sqrt(sum));
}

}  // namespace

template <>
void step_numbers(CudaStream stream, const StepNumbersOf& step) {
  step_numbers_kernel<<<1, 1, 0, stream_of(stream)>>>(step);
  check_launch("step_numbers");
}

}  // namespace lt::kernels
