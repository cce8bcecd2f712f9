// The limits of the CPU or of a CUDA device, which kernels are compared with: fused multiply-adds in registers, passes
// over arrays inside and outside the caches, and the best matrix product.
#pragma once

#include <vector>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::bench {

// Rates of repeated passes over an array of `bytes` bytes by all threads, each over its own part. An update reads and
// writes, so each byte counts twice.
struct MemoryRate {
  Size bytes;
  double reads_per_s, updates_per_s;  // bytes
};

struct Floor {
  Size threads = 1;
  double multiply_add_flops = 0;   // f32, per second
  std::vector<MemoryRate> memory;  // ordered by size, each twice the one before
  bool copies = false;             // rates are of copies between arrays, on CUDA

  // Bytes per second that repeated work on arrays of `footprint` bytes cannot exceed by much. On the CPU: the best rate
  // of reads or updates over the arrays larger than half of `footprint`. Within a core's fastest cache, code that reads
  // two arrays and writes one may be slightly faster. On CUDA: the rate of a copy between two arrays that together hold
  // `footprint` bytes, because small copies end before memory reaches its full rate. The copy's time is interpolated
  // linearly between the two nearest measured ones; outside the measured range the rate of the smallest or largest
  // applies.
  double memory_rate(Size footprint) const;
};

// Takes one or two seconds, on OMP_NUM_THREADS threads. On CUDA, the memory rates are those of copies of 8 MiB to 1
// GiB, and the multiply-add rate is what the multiprocessors can start at their highest clock.
Floor measure_floor(Device device);

// The best FLOP/s of several products of bf16 matrices. Calls the library, because the units for bf16 differ too much
// between processors for a loop of their instructions.
double measure_bf16_products(Device device);

}  // namespace lt::bench
