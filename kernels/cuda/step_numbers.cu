// The numbers of a step on the GPU, by one thread.
#include "kernels/step_numbers.h"

#include "kernels/cuda/common.cuh"
#include "kernels/step_numbers_of.h"

namespace lt::kernels {
namespace {

__global__ void step_numbers_kernel(StepNumbers* numbers, float* norm, const double* partials_n, Size n,
                                    const float* loss, float clip, const StepRates* rates,
                                    const __grid_constant__ GroupRates groups, LossScaleState* scaling) {
  double sum = 0;
  for (Size i = 0; i < n; ++i) sum += partials_n[i];
  fill_numbers(numbers, norm, sqrt(sum), *loss, clip, *rates, groups, scaling);
}

}  // namespace

template <>
void step_numbers(CudaStream stream, StepNumbers* numbers, float* norm, const double* partials_n, Size n,
                  const float* loss, float clip, const StepRates* rates, const GroupRates& groups,
                  LossScaleState* scaling) {
  step_numbers_kernel<<<1, 1, 0, stream_of(stream)>>>(numbers, norm, partials_n, n, loss, clip, rates, groups, scaling);
  check_launch("step_numbers");
}

}  // namespace lt::kernels
