// Measures the limits of the CPU or of a CUDA device, with which kernels are compared: fused multiply-adds in
// registers, passes over arrays inside and outside the caches, and the fastest matmul.
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
  bool copies = false;             // on CUDA: the rates in `memory` are of copies between arrays

  // Bytes per second that repeated work on arrays of `footprint` bytes cannot exceed by much. On the CPU: the best rate
  // of reads or updates over the arrays larger than half of `footprint`. Within a core's fastest cache, code that reads
  // two arrays and writes one may be slightly faster. On CUDA: the rate of a copy between two arrays that together hold
  // `footprint` bytes, because small copies end before memory reaches its full rate. The copy's time is interpolated
  // linearly between the two nearest measured ones; outside the measured range the rate of the smallest or largest
  // applies.
  double memory_rate(Size footprint) const;
};

// Takes one or two seconds, on OMP_NUM_THREADS threads. On CUDA, memory rates are measured with copies of 8 MiB to
// 1 GiB, and the multiply-add rate is not measured but computed for the multiprocessors at their highest clock.
Floor measure_floor(Device device);

// Returns the best FLOP/s of several bf16 matmuls. Calls the library's gemm(), because the bf16 units of processors
// differ too much for one loop of instructions.
double measure_bf16_matmuls(Device device);

}  // namespace lt::bench
