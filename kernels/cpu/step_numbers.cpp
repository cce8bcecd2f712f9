// Computes the numbers of a step on the CPU.
#include "kernels/step_numbers.h"

#include "kernels/step_numbers_of.h"

namespace lt::kernels {

template <>
void step_numbers(CpuStream, const StepNumbersOf& step) {
  double sum = 0;
  for (Size i = 0; i < step.n; ++i) sum += step.partials_n[i];
  fill_numbers(step, std::sqrt(sum));
}

}  // namespace lt::kernels
