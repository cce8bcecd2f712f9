// The checkpoint that a run would go on from.
#pragma once

#include "report/data.h"

namespace lt::report {

// The step of the run's newest checkpoint in its checkpoint.dir that is valid by manifest and file sizes; 0 if there is
// none. kMissing if the folder cannot be read here, as that of a run of another machine. Needs configuration and id.
double newest_on_disk(const RunData& run);

// The step of the last checkpoint that the record tells of; kMissing if there is none.
double last_recorded(const RunData& run);

// What is known of the newest checkpoint. The record may lack the event of one on disk, because the run was killed
// before it, or name one that is gone.
struct Saved {
  double step = 0;       // 0: none
  bool on_disk = false;  // else as the record has it
};
Saved newest_saved(const RunData& run);

}  // namespace lt::report
