// The random numbers of libtrain/kernels/random.h, drawn by all threads of a device.
#pragma once

#include <cstdint>

#include "kernels/common.h"

namespace lt::kernels {

// values_N[j] = mean + deviation * element (first + j) of the standard normal stream of `key`, rounded to f32 and then
// to `dtype` (f32, bf16, f16). A device's f64 log and cos may round differently from the CPU's, so a value may differ
// in its last place.
template <class S>
void fill_normal(S stream, DType dtype, void* values_N, std::uint64_t key, std::uint64_t first, Size N, float mean,
                 float deviation);

}  // namespace lt::kernels
