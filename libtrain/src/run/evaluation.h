// The mean loss over validation sets, or over a program's own batches. It does not depend on the number of ranks:
// micro-batch j of a set has the same samples on whichever rank it runs, and losses are added in the order of
// micro-batches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/data/batch_source.h"
#include "libtrain/data/data.h"
#include "libtrain/parallel/evaluation.h"

namespace lt::run {

// The files of one entry of data.val.
struct ValidationSet {
  std::string name;
  std::unique_ptr<TokenLoader> loader;  // of one micro-batch, in file order
};

struct SetLoss {
  std::string name;
  MeanLoss loss;
};

struct Evaluation {
  MeanLoss loss;  // over all sets
  Size samples = 0, batches = 0;
  std::vector<SetLoss> sets;  // sets with evaluated samples
};

// Evaluates the first `samples` samples of the sets, each once. `losses_of` evaluates one micro-batch of each rank and
// returns their losses in rank order. Every rank must call it with the same sets. `on_progress` receives the samples
// that all ranks have evaluated.
Evaluation evaluate(std::vector<ValidationSet>& sets, Size samples, int rank, int ranks,
                    const std::function<std::vector<BatchLoss>(const Batch&)>& losses_of,
                    const std::function<void(Size samples)>& on_progress = {});

// Evaluates each batch of `own` once. `losses_of` is as above, and so must every rank call it. Throws UsageError for a
// batch that does not have `micro_batch` samples.
Evaluation evaluate(const EvaluationBatches& own, Size micro_batch, int rank, int ranks,
                    const std::function<std::vector<BatchLoss>(const Batch&)>& losses_of);

}  // namespace lt::run
