// Asks the model for meta batches, and checks that evaluation batches are token ids.
#include "plan/run_batches.h"

#include <fmt/format.h>

#include "libtrain/error.h"

namespace lt::planner {
namespace {

// Evaluation reads token files, whatever training reads.
void require_token_batch(const Batch& batch, const Shape& shape, Size eval_every) {
  for (const Tensor* values : {&batch.inputs, &batch.targets}) {
    if (values->dtype() == DType::i32 && values->shape() == shape) continue;
    throw UsageError("config", "train.eval_every",
                     fmt::format("0 with a model whose batches are not token ids {}", to_string(shape)),
                     std::to_string(eval_every));
  }
}

}  // namespace

RunBatches batches_on_meta(const nn::Model& model, const BatchShape& shape, const Resolved& resolved) {
  const MemoryScope owner(MemoryOwner::data);
  const auto batch = [&](Size samples) {
    Batch made = model.batch_on_meta(samples, shape.seq);
    if (resolved.data.documents == Documents::mask) {
      made.document_starts = Tensor::empty({samples, shape.seq}, DType::i32, kMeta);
    }
    return made;
  };
  RunBatches batches{batch(shape.samples()), {}, {}};
  if (resolved.evaluation.every > 0) {
    batches.evaluation = batch(shape.micro_batch);
    if (resolved.evaluation.own.batch) return batches;
    require_token_batch(*batches.evaluation, {shape.micro_batch, shape.seq}, resolved.evaluation.every);
    for (std::size_t i = 1; i < resolved.data.val.size(); ++i) {
      batches.other_evaluations.push_back(batch(shape.micro_batch));
    }
  }
  return batches;
}

}  // namespace lt::planner
