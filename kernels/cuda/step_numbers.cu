// Computes the numbers of a step on the GPU, each in one thread.
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

template <class T>
__global__ void keep_loss_kernel(float* to, const T* loss, const std::uint64_t* bad_id) {
  *to = loss_or_nan(load(*loss), bad_id);
}

}  // namespace

template <>
void step_numbers(CudaStream stream, const StepNumbersOf& step) {
  step_numbers_kernel<<<1, 1, 0, stream_of(stream)>>>(step);
  check_launch("step_numbers");
}

template <>
void keep_loss(CudaStream stream, float* to, DType dtype, const void* loss, const std::uint64_t* bad_id) {
  dispatch_float(dtype, [&]<class T>() {
    keep_loss_kernel<<<1, 1, 0, stream_of(stream)>>>(to, static_cast<const T*>(loss), bad_id);
  });
  check_launch("keep_loss");
}

}  // namespace lt::kernels
