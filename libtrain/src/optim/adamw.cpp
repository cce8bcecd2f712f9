// The row of AdamW.
#include "kernels/adamw.h"

#include "libtrain/optim.h"
#include "libtrain/work_count.h"
#include "tensor/dispatch.h"

namespace lt {

AdamW::operator Optimizer() const {
  const kernels::AdamWFactors factors{beta1, beta2, eps, weight_decay};
  Optimizer row{"adamw", {"m", "v"}, {beta1, beta2}, {}, lr, clip};
  row.update = [factors](const UpdateRange& range) {
    const bool has_copy = range.copy.defined();
    dispatch(range.weights.device(), [&](auto stream) {
      kernels::adamw_update(stream,
                            {range.weights.data<float>(), range.states[0].data<float>(), range.states[1].data<float>(),
                             range.gradient.data<float>(), has_copy ? range.copy.data() : nullptr,
                             has_copy ? range.copy.dtype() : DType::bf16, range.weights.elements(), range.decayed},
                            factors, range.numbers);
    });
  };
  return row;
}

}  // namespace lt
