// Extends another optimizer row so that it also keeps an exponential moving average of the weights.
#include <utility>

#include "kernels/ema.h"
#include "libtrain/optim/optimizer.h"
#include "optim/row.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"

namespace lt {

Optimizer averaged(Optimizer row, double decay) {
  optim::require_whole(row);  // the functions below hide one that is missing
  const std::size_t states = row.states.size();
  const int bias = static_cast<int>(row.betas.size());
  const auto d = static_cast<float>(decay);
  row.states.emplace_back(kAverage);
  row.betas.push_back(d);
  const auto without_average = [=](auto update) {
    return [=](UpdateRange range) {
      range.states = range.states.first(states);
      update(range);
    };
  };
  const auto with_average = [=](auto update) {
    return [=, update = without_average(std::move(update))](const UpdateRange& range) {
      update(range);
      profile::count_traffic(range.weights.bytes());  // reads the weights once more; the caller counts the states
      tensor::dispatch(range.weights.device(), [&](auto stream) {
        kernels::ema_update(stream, range.states[states].template data<float>(), range.weights.dtype(),
                            range.weights.data(), range.weights.elements(), static_cast<double>(d), bias,
                            range.numbers);
      });
    };
  };
  if (row.matrices) {
    row.matrices->begin = without_average(std::move(row.matrices->begin));
    row.matrices->end = with_average(std::move(row.matrices->end));
  } else {
    row.update = with_average(std::move(row.update));
  }
  return row;
}

}  // namespace lt
