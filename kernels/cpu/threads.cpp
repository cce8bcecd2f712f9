// Uses OpenMP's team. The processors are those of OpenMP's places, or of the affinity mask if there are no places.
#include "kernels/threads.h"

#include <omp.h>
#include <sched.h>

#include <array>
#include <set>
#include <string>

#include "kernels/cpu/parallel.h"
#include "libtrain/error.h"

namespace lt::kernels {
namespace {

std::set<int> processors_of_places() {
  std::set<int> all;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> processors(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, processors.data());
    all.insert(processors.begin(), processors.end());
  }
  return all;
}

// Holds more processors than one cpu_set_t, because the kernel rejects a mask that is too small for the machine.
std::set<int> processors_of_mask() {
  std::array<cpu_set_t, 16> masks{};
  std::set<int> all;
  if (sched_getaffinity(0, sizeof masks, masks.data()) != 0) return all;
  for (int i = 0; i < static_cast<int>(8 * sizeof masks); ++i) {
    if (CPU_ISSET_S(i, sizeof masks, masks.data())) all.insert(i);
  }
  return all;
}

}  // namespace

int threads() { return omp_get_max_threads(); }

void set_threads(int count) { omp_set_num_threads(count); }

void require_processor() {
#if defined(LIBTRAIN_CPU_LEVEL)
  if (detail::processor_level() < kOnlyLevel) {
    throw UsageError("kernels",
                     std::string("processor: expected one with ") + (kOnlyLevel == CpuLevel::v4 ? "AVX-512" : "AVX2") +
                         ", which the building machine has, found one without",
                     "build on this machine, or without -DLIBTRAIN_NATIVE=ON");
  }
#endif
}

void on_each_thread(const std::function<void()>& body) {
#pragma omp parallel num_threads(threads())
  body();
}

std::vector<int> usable_processors() {
  const std::set<int> all = omp_get_num_places() > 0 ? processors_of_places() : processors_of_mask();
  return {all.begin(), all.end()};
}

}  // namespace lt::kernels
