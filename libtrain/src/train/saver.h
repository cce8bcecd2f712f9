// Saves a run's state to its checkpoint folder and says so.
#pragma once

#include "train/run.h"

namespace lt {

class Saver {
 public:
  explicit Saver(Run& run);

  // The state as it stands, unless that was saved. All ranks of run.control call it. Throws DataError.
  void save();
  // The newest step that this start saved or began from; -1: none.
  Size last_saved() const { return last_saved_; }

 private:
  Run& run_;
  Size last_saved_ = -1;
};

}  // namespace lt
