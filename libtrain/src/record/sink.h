// Outputs for step metrics besides metrics.jsonl.
#pragma once

#include <memory>
#include <string>

#include "record/record.h"

namespace lt::recorder {

class Sink {
 public:
  virtual ~Sink() = default;
  // All functions throw DataError.
  virtual void step(const StepRecord& record) = 0;
  virtual void evaluation(Size step, double loss) = 0;
  // Flushes all written data to disk.
  virtual void sync() = 0;
};

// Writes a table with the column names in the first row and one row per step, with fields of docs/reference/metrics.md
// and without evaluations. A resumed run appends. If another version wrote the last column names in the file, it writes
// its own names first.
std::unique_ptr<Sink> make_csv_sink(const std::string& path);

// Creates a new TensorBoard event file in `folder`. `first_step` is the first step of this start: TensorBoard drops the
// records of earlier attempts from that step on.
std::unique_ptr<Sink> make_tensorboard_sink(const std::string& folder, Size first_step);

}  // namespace lt::recorder
