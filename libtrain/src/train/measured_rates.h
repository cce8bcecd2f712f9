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

namespace lt {

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

// Which of the measured rates apply to a run.
struct RatesUse {
  DType dtype = DType::f32;  // of the products: f32 or bf16
  Size seq = 1, head_dim = 1;
  bool gated_ffn = false;
  int cores = 1;  // of a rank, on the CPU
};

// The rates of one run. A function returns nullopt where nothing was measured.
class RunRates final : public ProductTimes {
 public:
  RunRates(const MeasuredRates& rates, const RatesUse& use);

  bool has_products() const { return !products_.empty(); }
  // At the rate of the measured product whose sizes are nearest by ratio. There must be products.
  double ms(Size M, Size N, Size K) const override;
  double products_ms(double flops) const;  // at the mean rate
  std::optional<double> attention_ms(double forward_flops, double backward_flops) const;
  std::optional<double> traffic_ms(double bytes) const;
  std::optional<double> optimizer_ms(double bytes) const;
  // A collective inside a node; interpolated between sizes. `hop_us` for each rank more than measured.
  std::optional<double> collective_ms(Lane lane, const CollectiveShape& shape, double hop_us) const;

 private:
  using Points = std::vector<std::pair<double, double>>;  // bytes that a rank sends, ms; ascending
  struct Curve {
    int ranks = 0;
    Points points;
    double at(double sent) const;
  };

  std::vector<MeasuredRates::Product> products_;
  double scale_;                                  // of times: measured threads over the run's cores
  double mean_tflops_ = 0;                        // of all products
  std::array<double, 2> attention_tflops_{};      // forward, backward; 0: not measured
  double traffic_gb_s_ = 0, optimizer_gb_s_ = 0;  // 0: not measured
  std::array<Curve, 3> curves_;                   // all_gather, reduce_scatter, all_reduce
};

}  // namespace lt
