// Further outputs for the numbers of steps, beside metrics.jsonl.
#pragma once

#include <memory>
#include <string>

#include "libtrain/record/record.h"

namespace lt {

class Sink {
 public:
  virtual ~Sink() = default;
  // All throw DataError.
  virtual void step(const StepRecord& record) = 0;
  virtual void evaluation(Size step, double loss) = 0;
  // Brings all written data to disk.
  virtual void sync() = 0;
};

// A table with one row per step and the names in the first row, the fields of docs/metrics.md, without evaluations. A
// resumed run appends; if the names in the file are of another version, it writes its own names first.
std::unique_ptr<Sink> make_csv_sink(const std::string& path);

// A new TensorBoard event file in `folder`. `first_step` is the first step of this start: TensorBoard drops an earlier
// attempt's records from that step on.
std::unique_ptr<Sink> make_tensorboard_sink(const std::string& folder, Size first_step);

}  // namespace lt
