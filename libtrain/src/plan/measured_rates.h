// Rates of a machine, measured by `ltrain bench kernels|comm|rates`. Estimates use them instead of the device table.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/dtype.h"
#include "libtrain/profile/timeline.h"
#include "profile/work_count.h"

namespace lt::planner {

inline constexpr const char* kCollectives[] = {"all_gather", "reduce_scatter", "all_reduce"};  // the measured ones

// The contents of result files, by kind of measurement. Times are medians.
struct MeasuredRates {
  struct Matmul {
    DType dtype;
    Size M, N, K;
    double ms;
  };
  struct Attention {
    DType dtype;
    Size T, D;
    bool backward;
    double flops, ms;
  };
  struct Pass {  // a memory-bound kernel
    std::string name;
    DType dtype;
    double bytes, ms;
  };
  struct Collective {
    std::string name;
    bool in_window;
    int ranks;
    double bytes;  // of the full array
    double ms;
  };

  std::vector<std::string> files;
  std::string gpu;  // the driver's name; empty: CPU ranks
  int threads = 1;  // of a rank, on the CPU
  std::vector<Matmul> matmuls;
  std::vector<Attention> attention;
  std::vector<Pass> passes;
  std::vector<Collective> collectives;
};

// Reads result files, all of one kind of device. Throws DataError that names the file and the field.
std::shared_ptr<const MeasuredRates> read_rates(const std::vector<std::string>& files);

}  // namespace lt::planner
