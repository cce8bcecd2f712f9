// The thread's counters.
#include "libtrain/work_count.h"

namespace lt {

WorkCount& work_count() {
  thread_local WorkCount count;
  return count;
}

}  // namespace lt
