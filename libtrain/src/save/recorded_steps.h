// Tracks which steps have a row in the record. A thread that saves a state waits for the row of its step. So a restart
// leaves no gap in the record, and the state of a step that ended the run is not saved.
#pragma once

#include <condition_variable>
#include <mutex>

#include "libtrain/dtype.h"

namespace lt::saver {

class RecordedSteps {
 public:
  // Rows up to step `newest` were written by earlier starts.
  explicit RecordedSteps(Size newest) : newest_(newest) {}

  // Call it after the row of `step` is written.
  void add(Size step);
  // True if the row of `step` is written.
  bool has(Size step);
  // Call it when no further rows will be written.
  void close();
  // Waits until the row of `step` is written or close() is called. Returns true if the row was written.
  bool wait_for(Size step);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Size newest_;
  bool closed_ = false;
};

}  // namespace lt::saver
