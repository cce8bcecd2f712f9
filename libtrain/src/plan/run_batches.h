// The batches of a run as the meta device sees them: what its engine rehearses.
#pragma once

#include <optional>
#include <vector>

#include "libtrain/config/resolved.h"
#include "libtrain/nn/module.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/tensor/batch.h"

namespace lt::planner {

// Shapes of the batches for training and, if the configuration evaluates, for evaluation; on the meta device. Each
// entry of data.val has a batch of its own: `evaluation` is the first one's.
struct RunBatches {
  Batch step;
  std::optional<Batch> evaluation;
  std::vector<Batch> other_evaluations;
};
RunBatches batches_on_meta(const nn::Model& model, const BatchShape& shape, const Resolved& resolved);

}  // namespace lt::planner
