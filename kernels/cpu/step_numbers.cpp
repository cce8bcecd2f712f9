// The numbers of a step on the CPU.
#include "kernels/step_numbers.h"

#include "kernels/cpu/math.h"
#include "kernels/step_numbers_of.h"

namespace lt::kernels {

template <>
void step_numbers(CpuStream, const StepNumbersOf& step) {
  double sum = 0;
  for (Size i = 0; i < step.n; ++i) sum += step.partials_n[i];
  fill_numbers(step, std::sqrt(sum));
}

template <>
void keep_loss(CpuStream, float* to, DType dtype, const void* loss, const std::uint64_t* bad_id) {
  dispatch_float(dtype, [&]<class T>() { *to = loss_or_nan(load(*static_cast<const T*>(loss)), bad_id); });
}

}  // namespace lt::kernels
