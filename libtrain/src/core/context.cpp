// The context of each thread.
#include "libtrain/context.h"

namespace lt {

Context& Context::current() {
  thread_local Context context;
  return context;
}

}  // namespace lt
