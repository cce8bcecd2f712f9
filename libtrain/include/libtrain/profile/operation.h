// The name of the running operation.
#pragma once

#include <string_view>

#include "libtrain/api.h"
#include "libtrain/device/context.h"
#include "libtrain/profile/timeline.h"

namespace LT_API lt {

// Names the operation that runs on this thread, for messages about its allocations and for traces: "rms_norm",
// "reduce_scatter". The text is not copied and must outlive the scope.
class OperationScope {
 public:
  explicit OperationScope(std::string_view name) : operation_(name), span_(Lane::compute, name) {}

 private:
  const ContextMemberScope<&Context::operation> operation_;
  const SpanScope span_;
};

}  // namespace lt
