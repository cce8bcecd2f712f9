// LT_ON_DEVICE marks a function that kernels on a GPU call too.
#pragma once

#ifdef __CUDACC__
#define LT_ON_DEVICE __host__ __device__
#else
#define LT_ON_DEVICE
#endif
