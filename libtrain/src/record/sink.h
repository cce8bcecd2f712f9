// Where the numbers of steps go beside metrics.jsonl.
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
  // What was written is on disk after it.
  virtual void sync() = 0;
};

// A table with one row a step and a first row of names, the fields of docs/metrics.md; evaluations are not in it. A run
// that goes on appends, after names of its own where those in the file are of another version.
std::unique_ptr<Sink> make_csv_sink(const std::string& path);

// An event file of TensorBoard in `folder`, a new one at each start. `first_step` is the first that this start makes:
// TensorBoard drops what an earlier attempt wrote of it and of later ones.
std::unique_ptr<Sink> make_tensorboard_sink(const std::string& folder, Size first_step);

}  // namespace lt
