// The limits of this processor: fused multiply-adds in registers, reads of arrays that fit a cache or do not, and the
// best matrix product. What kernels are held against.
#pragma once

#include <vector>

#include "libtrain/dtype.h"

namespace lt::bench {

struct ReadRate {
  Size bytes;          // of the array
  double bytes_per_s;  // of all threads, each reading its own part
};

struct Floor {
  Size threads = 1;
  double multiply_add_flops = 0;  // f32, per second
  std::vector<ReadRate> reads;    // by growing size

  // The rate of reads from where `bytes` bytes that are worked on again and again lie: that of the smallest measured
  // array that is at least as large, or of the largest.
  double read_rate(Size bytes) const;
};

// Takes about a second. With OMP_NUM_THREADS threads.
Floor measure_floor();

// FLOP/s of the best large product of bf16 matrices: instructions for it have no f32 multiply-add to be counted in.
double measure_bf16_products();

}  // namespace lt::bench
