// The checkpoint from which a run would continue.
#pragma once

#include "report/data.h"

namespace lt::report {

// Returns the step of the run's newest checkpoint in its checkpoint.dir with a valid manifest and the right file sizes;
// 0 if there is none. Returns kMissing if the folder cannot be read here, for example because the run belongs to
// another machine. Reads configuration, ids and directory of `run`.
double newest_on_disk(const RunData& run);

// Returns the step of the last `checkpoint` event in the record; kMissing if there is none.
double last_recorded(const RunData& run);

// The newest known checkpoint. Disk and record may differ: the run may be killed after a save and before its event, and
// a recorded checkpoint may be removed.
struct Saved {
  double step = 0;       // 0: none
  bool on_disk = false;  // found on disk; otherwise known from the record only
};
Saved newest_saved(const RunData& run);

}  // namespace lt::report
