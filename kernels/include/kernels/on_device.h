// LT_ON_DEVICE marks a function that GPU kernels call too.
#pragma once

#ifdef __CUDACC__
#define LT_ON_DEVICE __host__ __device__
#else
#define LT_ON_DEVICE
#endif
