// The context of each thread.
#include "libtrain/device/context.h"

namespace lt {

Context& Context::current() {
  thread_local Context context;
  return context;
}

}  // namespace lt
