// A row that also keeps the average of the weights that another one makes.
#include <utility>

#include "kernels/ema.h"
#include "libtrain/optim.h"
#include "libtrain/work_count.h"
#include "tensor/dispatch.h"

namespace lt {

Optimizer averaged(Optimizer row, double decay) {
  const std::size_t states = row.states.size();
  const int bias = static_cast<int>(row.betas.size());
  const auto d = static_cast<float>(decay);
  row.states.emplace_back(kAverage);
  row.betas.push_back(d);
  row.update = [=, update = std::move(row.update)](const UpdateRange& range) {
    UpdateRange inner = range;
    inner.states = range.states.first(states);
    update(inner);
    count_traffic(range.weights.bytes());  // the weights once more; states are counted by who calls
    dispatch(range.weights.device(), [&](auto stream) {
      kernels::ema_update(stream, range.states[states].data<float>(), range.weights.dtype(), range.weights.data(),
                          range.weights.elements(), static_cast<double>(d), bias, range.numbers);
    });
  };
  return row;
}

}  // namespace lt
