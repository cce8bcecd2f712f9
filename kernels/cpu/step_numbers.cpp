// The numbers of a step on the CPU.
#include "kernels/step_numbers.h"

#include "kernels/step_numbers_of.h"

namespace lt::kernels {

template <>
void step_numbers(CpuStream, StepNumbers* numbers, float* norm, const double* partials_n, Size n, const float* loss,
                  float clip, const StepRates* rates, const GroupRates& groups, LossScaleState* scaling) {
  double sum = 0;
  for (Size i = 0; i < n; ++i) sum += partials_n[i];
  fill_numbers(numbers, norm, std::sqrt(sum), *loss, clip, *rates, groups, scaling);
}

}  // namespace lt::kernels
