// The batches of a run on the meta device (shapes only), for the rehearsals of its engine.
#pragma once

#include <optional>
#include <vector>

#include "libtrain/config/resolved.h"
#include "libtrain/nn/module.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/tensor/batch.h"

namespace lt::planner {

// Batches for training and, if the configuration evaluates, for evaluation: `evaluation` for the first entry of
// data.val, `other_evaluations` for the rest.
struct RunBatches {
  Batch step;
  std::optional<Batch> evaluation;
  std::vector<Batch> other_evaluations;
};
RunBatches batches_on_meta(const nn::Model& model, const BatchShape& shape, const Resolved& resolved);

}  // namespace lt::planner
