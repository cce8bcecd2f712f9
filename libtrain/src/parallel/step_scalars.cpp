// Allocates what the scalars of a step take.
#include "parallel/step_scalars.h"

#include "kernels/step_numbers.h"
#include "libtrain/memory.h"

namespace lt {
namespace {

Tensor zeros(Size count, DType dtype, Device device) {
  const MemoryScope owner(MemoryOwner::workspace);
  return Tensor::zeros({count}, dtype, device);
}

}  // namespace

StepScalars::StepScalars(const StepOptions& options, Size ranks, Size shard_ranks, Size units, Size groups)
    : losses(zeros(options.accum * ranks, DType::f32, options.device)),
      numbers(zeros(3, DType::f32, options.device)),
      loss(numbers.narrow(0, 0, 1)),
      norm(numbers.narrow(0, 1, 1)),
      partials(zeros(shard_ranks * units, DType::f64, options.device)),
      update(zeros(groups * static_cast<Size>(sizeof(StepNumbers) / sizeof(float)), DType::f32, options.device)),
      rates(zeros(sizeof(kernels::StepRates) / sizeof(float), DType::f32, options.device)),
      evaluation(zeros(1, DType::f32, options.device)) {
  fill(numbers.narrow(0, 2, 1), 1);
}

}  // namespace lt
