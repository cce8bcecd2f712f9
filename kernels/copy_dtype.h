// The type of the copy that an optimizer's update leaves in the compute dtype.
#pragma once

#include <string>

#include "kernels/common.h"
#include "libtrain/error.h"

namespace lt::kernels {

// f(copy) with the type of a copy; null for none.
template <class F>
void dispatch_copy(void* copy, DType dtype, F&& f) {
  if (copy == nullptr || dtype == DType::bf16) return f(static_cast<bf16*>(copy));
  if (dtype == DType::f16) return f(static_cast<f16*>(copy));
  throw InternalError("kernels", "expected a copy in bf16 or f16, found " + std::string(dtype_name(dtype)));
}

}  // namespace lt::kernels
