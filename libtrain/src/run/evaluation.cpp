// Hands the micro-batches of validation sets to the ranks in turn.
#include "run/evaluation.h"

#include <fmt/format.h>

#include <algorithm>

#include "libtrain/error.h"
#include "libtrain/memory/memory.h"

namespace lt::run {

Evaluation evaluate(std::vector<ValidationSet>& sets, Size samples, int rank, int ranks,
                    const std::function<std::vector<BatchLoss>(const Batch&)>& losses_of,
                    const std::function<void(Size samples)>& on_progress) {
  Evaluation result;
  for (ValidationSet& set : sets) {
    const Size end = std::min(samples - result.samples, set.loader->samples_per_epoch());
    if (end == 0) break;
    const Size micro_batch = set.loader->batch_rows();
    SetLoss of_set{set.name, {}};
    for (Size first = 0; first < end; first += micro_batch * ranks) {
      for (const BatchLoss& loss : losses_of(set.loader->rows(first + micro_batch * rank, end))) of_set.loss.add(loss);
      if (on_progress) on_progress(result.samples + std::min(end, first + micro_batch * ranks));
    }
    result.samples += end, result.batches += (end + micro_batch - 1) / micro_batch;
    result.loss.add(of_set.loss);
    result.sets.push_back(of_set);
  }
  return result;
}

Evaluation evaluate(const EvaluationBatches& own, Size micro_batch, int rank, int ranks,
                    const std::function<std::vector<BatchLoss>(const Batch&)>& losses_of) {
  Evaluation result;
  for (Size first = 0; first < own.count; first += ranks) {
    const Size here = std::min<Size>(ranks, own.count - first);
    // A rank without a batch takes part with another's, whose loss does not count twice.
    const Size index = first + (rank < here ? rank : 0);
    const MemoryScope owner(MemoryOwner::data);
    const Batch batch = own.batch(index);
    if (!batch.inputs.defined() || batch.inputs.dims() == 0 || batch.inputs.dim(0) != micro_batch) {
      throw UsageError("train", "evaluation",
                       fmt::format("train.micro_batch {} samples in batch {}", micro_batch, index),
                       batch.inputs.defined() ? "inputs " + to_string(batch.inputs.shape()) : "none");
    }
    const std::vector<BatchLoss> losses = losses_of(batch);
    for (Size i = 0; i < here; ++i) result.loss.add(losses[static_cast<std::size_t>(i)]);
  }
  result.batches = own.count, result.samples = own.count * micro_batch;
  return result;
}

}  // namespace lt::run
