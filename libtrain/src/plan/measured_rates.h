// Rates of a machine as `ltrain bench kernels|comm|rates` measured them, for estimates in place of the table's.
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

inline constexpr const char* kCollectives[] = {"all_gather", "reduce_scatter", "all_reduce"};  // that are measured

// What the files hold, by what they measured. Times are medians.
struct MeasuredRates {
  struct Product {
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
  struct Pass {  // a kernel that its memory traffic limits
    std::string name;
    DType dtype;
    double bytes, ms;
  };
  struct Collective {
    std::string name;
    bool in_window;
    int ranks;
    double bytes;  // of the whole array
    double ms;
  };

  std::vector<std::string> files;
  std::string gpu;  // the driver's name of it; empty: CPU ranks
  int threads = 1;  // of a rank, on the CPU
  std::vector<Product> products;
  std::vector<Attention> attention;
  std::vector<Pass> passes;
  std::vector<Collective> collectives;
};

// Reads results. All must be of one kind of device. Throws DataError that names the file and the field.
std::shared_ptr<const MeasuredRates> read_rates(const std::vector<std::string>& files);

}  // namespace lt::planner
