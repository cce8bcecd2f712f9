// The limits of this processor, or of a CUDA device: fused multiply-adds in registers, passes over arrays that fit a
// cache or do not, and the best matrix product. What kernels are held against.
#pragma once

#include <vector>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::bench {

// Of passes over an array of `bytes` bytes by all threads, each over its own part, again and again. An update reads and
// writes: each byte counts twice.
struct MemoryRate {
  Size bytes;
  double reads_per_s, updates_per_s;  // bytes
};

struct Floor {
  Size threads = 1;
  double multiply_add_flops = 0;   // f32, per second
  std::vector<MemoryRate> memory;  // by growing size, each twice the one before
  bool copies = false;             // of arrays to others, on CUDA

  // Bytes a second that nothing exceeds by much which works on arrays of `footprint` bytes again and again: the best
  // rate of reads or updates of an array that is larger than half of that. Within the fastest cache of a core what
  // reads two arrays and writes one may be a little faster. On CUDA: that of a copy between two arrays of so many bytes
  // together, since small arrays end before the memory is at its full rate. Its time lies on the line between the two
  // measured copies that are nearest; beyond the smallest and the largest the rate is theirs.
  double memory_rate(Size footprint) const;
};

// Takes one or two seconds. With OMP_NUM_THREADS threads. On CUDA the rates of memory are those of copies, of 8 MiB to
// 1 GiB, and the multiply-adds are those that its multiprocessors can start at their highest clock.
Floor measure_floor(Device device);

// FLOP/s of the best of several products of bf16 matrices: the units for it differ too much between processors for a
// loop of their instructions.
double measure_bf16_products(Device device);

}  // namespace lt::bench
