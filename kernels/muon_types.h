// The element types of Muon's update and the rounding states of its arrays.
#pragma once

#include "kernels/element_types.h"
#include "kernels/muon.h"

namespace lt::kernels {

inline std::uint32_t muon_momentum_bits() { return rounding_state("momentum"); }
inline std::uint32_t muon_weight_bits() { return rounding_state("master"); }

// Calls f.operator()<W, Direction>(copy) with the types of weights and directions and the typed copy pointer (or null).
template <class F>
void dispatch_muon(const MuonUpdate& r, F&& f) {
  dispatch_f32_bf16(r.direction_dtype, [&]<class Direction>() {
    if (r.w_dtype == DType::bf16 && r.copy_N == nullptr) {
      return f.template operator()<bf16, Direction>(static_cast<bf16*>(nullptr));
    }
    const bool takes_copy = r.copy_N == nullptr || r.copy_dtype == DType::bf16 || r.copy_dtype == DType::f16;
    if (r.w_dtype != DType::f32 || !takes_copy) {
      throw InternalError("kernels",
                          "muon: expected weights in f32 with a copy in bf16 or f16, or in bf16 without one, "
                          "found " +
                              std::string(dtype_name(r.w_dtype)) + " with a copy in " +
                              std::string(dtype_name(r.copy_dtype)));
    }
    if (r.copy_N != nullptr && r.copy_dtype == DType::f16) {
      return f.template operator()<float, Direction>(static_cast<f16*>(r.copy_N));
    }
    f.template operator()<float, Direction>(static_cast<bf16*>(r.copy_N));
  });
}

}  // namespace lt::kernels
