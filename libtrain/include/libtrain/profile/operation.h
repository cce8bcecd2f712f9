// The name of the running operation, and its work.
#pragma once

#include <string_view>

#include "libtrain/api.h"
#include "libtrain/device/context.h"
#include "libtrain/profile/timeline.h"

namespace LT_API lt {

// Names the operation that runs on this thread, such as "rms_norm". Messages about allocations and traces show the
// name. The scope does not copy the text; the caller must keep it alive until the scope ends.
class OperationScope {
 public:
  explicit OperationScope(std::string_view name) : operation_(name), span_(Lane::compute, name) {}

 private:
  const ContextMemberScope<&Context::operation> operation_;
  const SpanScope span_;
};

// Adds FLOPs to the estimates of plans, at the rate of matmuls. For an operation that multiplies matrices by itself:
// call it in forward() and in backward(), on meta too, where plans run. Plans count the bytes of an operation's tensors
// by themselves.
void count_matmul_flops(double flops);

}  // namespace lt
