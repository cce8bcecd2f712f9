// The element types of AdamW's update and the rounding states of its arrays.
#pragma once

#include <string>

#include "kernels/adamw.h"
#include "libtrain/error.h"

namespace lt::kernels {

// The rounding_state() of each array that may be bf16.
struct AdamWRoundingStates {
  std::uint32_t w = rounding_state("master"), m = rounding_state("m"), v = rounding_state("v");
};

// Calls f.operator()<W, State>(copy) with the types of weights and states and the typed copy pointer (or null).
template <class F>
void dispatch_adamw(const AdamWRange& r, F&& f) {
  const auto fail = [](const char* what, DType dtype) {
    throw InternalError("kernels",
                        std::string("adamw: expected ") + what + ", found " + std::string(dtype_name(dtype)));
  };
  const auto with_copy = [&]<class W, class State>() {
    if constexpr (std::is_same_v<W, float>) {
      if (r.copy_N != nullptr && r.copy_dtype == DType::f16) {
        return f.template operator()<W, State>(static_cast<f16*>(r.copy_N));
      }
      if (r.copy_N != nullptr && r.copy_dtype != DType::bf16) fail("a copy in bf16 or f16", r.copy_dtype);
    }
    f.template operator()<W, State>(static_cast<bf16*>(r.copy_N));
  };
  const auto with_state = [&]<class W>() {
    if (r.state_dtype == DType::f32) return with_copy.template operator()<W, float>();
    if (r.state_dtype != DType::bf16) fail("m and v in f32 or bf16", r.state_dtype);
    with_copy.template operator()<W, bf16>();
  };
  if (r.w_dtype == DType::f32) return with_state.template operator()<float>();
  if (r.w_dtype != DType::bf16 || r.copy_N != nullptr) fail("weights in f32, or in bf16 without a copy", r.w_dtype);
  with_state.template operator()<bf16>();
}

}  // namespace lt::kernels
