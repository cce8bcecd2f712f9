// What is compiled in, for code that must not name a back end that is not.
#pragma once

#ifndef LIBTRAIN_HAS_CUDA
#define LIBTRAIN_HAS_CUDA 0
#endif

namespace lt {

inline constexpr bool kCudaIsBuilt = LIBTRAIN_HAS_CUDA != 0;

}  // namespace lt
