// Hands the micro-batches of validation sets to the ranks in turn.
#include "run/evaluation.h"

#include <algorithm>

namespace lt::run {

Evaluation evaluate(std::vector<ValidationSet>& sets, Size samples, int rank, int ranks,
                    const std::function<std::vector<BatchLoss>(const Batch&)>& losses_of) {
  Evaluation result;
  for (ValidationSet& set : sets) {
    const Size end = std::min(samples - result.samples, set.loader->samples_per_epoch());
    if (end == 0) break;
    const Size micro_batch = set.loader->batch_rows();
    SetLoss of_set{set.name, {}};
    for (Size first = 0; first < end; first += micro_batch * ranks) {
      for (const BatchLoss& loss : losses_of(set.loader->rows(first + micro_batch * rank, end))) of_set.loss.add(loss);
    }
    result.samples += end, result.batches += (end + micro_batch - 1) / micro_batch;
    result.loss.add(of_set.loss);
    result.sets.push_back(of_set);
  }
  return result;
}

}  // namespace lt::run
