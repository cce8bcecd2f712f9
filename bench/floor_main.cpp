// The program bench_floor: prints this processor's limits as one JSON object. bench/step_profile.py compares a step
// with them. Runs on OMP_NUM_THREADS threads.
#include <cstdio>

#include "bench/floor.h"

int main() {
  const lt::bench::Floor floor = lt::bench::measure_floor(lt::kCpu);
  std::printf("{\"threads\": %ld, \"f32_gflops\": %.0f", floor.threads, floor.multiply_add_flops * 1e-9);
  for (const lt::bench::MemoryRate& rate : floor.memory) {
    if (rate.bytes >= 1 << 20) std::printf(", \"read_%ldmb_gb_s\": %.1f", rate.bytes >> 20, rate.reads_per_s * 1e-9);
  }
  std::puts("}");
}
