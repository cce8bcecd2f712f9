// The context of each thread.
#include "libtrain/device/context.h"

#include <algorithm>

namespace lt {

void Context::give_notice(std::string text) const {
  if (notices == nullptr || std::ranges::find(*notices, text) != notices->end()) return;
  notices->push_back(std::move(text));
}

Context& Context::current() {
  thread_local Context context;
  return context;
}

}  // namespace lt
