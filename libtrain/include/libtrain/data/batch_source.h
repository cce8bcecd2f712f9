// Batches of a program's own: for training, and for evaluation.
#pragma once

#include <functional>

#include "libtrain/api.h"
#include "libtrain/tensor/batch.h"

namespace LT_API lt {

// The source of a run's training batches. Each rank has its own source, which returns that rank's rows of every step. A
// batch must depend on the position alone, so that a resumed run sees the same samples as an uninterrupted one.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Returns this rank's rows of the next step: BatchShape::samples() rows. Row i is sample p + BatchShape::sample_of(i)
  // of the run, where p is the position: the argument of the last seek(), or 0. Each call advances it by the samples of
  // a step over all ranks. A source that gives other rows still trains, but elastic runs (Determinism::elastic) then
  // have other bits at each number of ranks. The rows must stay valid until the next call. An exception ends the run.
  virtual Batch next() = 0;
  // Sets the position: `samples` samples of the run, over all ranks, are consumed. A run calls this before each next(),
  // so it must cost nothing if the position does not change.
  virtual void seek(Size samples) = 0;
  // Tokens, or other units, in all data; 0: unknown. Resuming a run throws UsageError if it has changed.
  virtual Size tokens() const = 0;
  // True if targets of a batch may be kIgnoredTarget. Targets are then i32.
  virtual bool has_ignored_targets() const { return false; }
};

// A set of batches for evaluation.
struct EvaluationBatches {
  Size count = 0;  // number of batches
  // Returns batch `index`, from 0 to count - 1. Each batch has train.micro_batch samples, in the shapes of
  // nn::Model::batch_on_meta(); other shapes are allowed, but their memory is not planned before the run. Any rank may
  // ask for any batch, so it must depend on `index` alone. The rows must stay valid until the next call.
  std::function<Batch(Size index)> batch = {};
};

}  // namespace lt
