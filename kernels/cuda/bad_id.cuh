// Device functions that test ids and record bad ones.
#pragma once

#include "kernels/cuda/common.cuh"
#include "kernels/id_check.h"

namespace lt::kernels {

__device__ inline bool is_inside(Size id, Size V) { return id >= 0 && id < V; }

// Call it on one of the threads that read the id. `at` is the id's index in ids_M.
__device__ inline void record_bad_id(const IdCheck& check, Size at, std::int32_t id) {
  if (check.word == nullptr) return;
  atomicMax(reinterpret_cast<unsigned long long*>(check.word), word_of({check.first + at, check.check, id}));
}

}  // namespace lt::kernels
