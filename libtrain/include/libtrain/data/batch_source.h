// Where a run's training batches come from.
#pragma once

#include "libtrain/api.h"
#include "libtrain/tensor/batch.h"

namespace LT_API lt {

// Each rank has its own source, which gives that rank's rows of every step. Batches must be a function of the position
// alone: then a resumed run sees the samples that an unbroken one sees.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // This rank's rows of the next step: BatchShape::samples() rows, from sample position + rank * samples() of the run
  // on. The position is that of the last seek(), or 0, and each call adds the samples of a step. The caller uses the
  // rows until the next call. What this throws ends the run.
  virtual Batch next() = 0;
  // `samples` of the run, over all ranks, are consumed: next() goes on behind them. A run calls this before each
  // next(), so it must cost nothing where the position is the same.
  virtual void seek(Size samples) = 0;
  // Tokens, or other units, in all data. A run refuses to go on with another number. 0: unknown.
  virtual Size tokens() const = 0;
  // Whether any target of a batch may be kIgnoredTarget; then targets are i32.
  virtual bool has_ignored_targets() const { return false; }
};

}  // namespace lt
