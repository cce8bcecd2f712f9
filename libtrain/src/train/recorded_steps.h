// Which steps have their row in the record: threads that keep a state wait for the row of its step. So no restart
// leaves a gap in the record, and the state of a step that ended the run is not kept.
#pragma once

#include <condition_variable>
#include <mutex>

#include "libtrain/dtype.h"

namespace lt {

class RecordedSteps {
 public:
  // Rows up to step `newest` were written by earlier starts.
  explicit RecordedSteps(Size newest) : newest_(newest) {}

  // The row of `step` is written.
  void add(Size step);
  // No further step counts.
  void close();
  // Whether the row of `step` was written; waits until that is known.
  bool wait_for(Size step);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Size newest_;
  bool closed_ = false;
};

}  // namespace lt
