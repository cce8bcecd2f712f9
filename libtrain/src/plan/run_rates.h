// The measured rates that apply to one run.
#pragma once

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "libtrain/profile/timeline.h"
#include "plan/measured_rates.h"
#include "profile/work_count.h"

namespace lt::planner {

// The properties of a run that select its measured rates.
struct RatesUse {
  DType dtype = DType::f32;  // of the matmuls: f32 or bf16
  Size seq = 1, head_dim = 1;
  bool gated_ffn = false;
  int cores = 1;  // of a rank, on the CPU
};

// The dtype whose rates estimate a run of `dtype`: f16 is as fast as bf16 on a GPU, and computed in f32 on the CPU.
inline DType dtype_of_rates(DType dtype, bool on_gpu) {
  return dtype != DType::f16 ? dtype : on_gpu ? DType::bf16 : DType::f32;
}

// The rates of one run. A function returns nullopt if no such rate was measured.
class RunRates final : public profile::MatmulTimes {
 public:
  RunRates(const MeasuredRates& rates, const RatesUse& use);

  // True if no measured rate applies to the run. Rates of collectives alone apply only if no kernels were measured.
  bool is_empty() const;
  bool has_matmuls() const { return !matmuls_.empty(); }
  // Uses the rate of the measured matmul whose sizes are nearest by ratio. Call it only if has_matmuls().
  double ms(Size M, Size N, Size K) const override;
  double matmuls_ms(double flops) const;  // at the mean rate
  std::optional<double> quantized_matmuls_ms(double flops) const;
  std::optional<double> attention_ms(double forward_flops, double backward_flops) const;
  std::optional<double> traffic_ms(double bytes) const;
  std::optional<double> optimizer_ms(double bytes) const;
  // The time of a collective inside a node, interpolated between measured sizes. Adds `hop_us` for each rank more than
  // in the measurement.
  std::optional<double> collective_ms(Lane lane, const CollectiveShape& shape, double hop_us) const;

 private:
  using Points = std::vector<std::pair<double, double>>;  // bytes that a rank sends, ms; ascending
  struct Curve {
    int ranks = 0;
    Points points;
    double at(double sent) const;
  };

  bool has_kernels_;  // of any dtype
  std::vector<MeasuredRates::Matmul> matmuls_;
  double scale_;                                  // factor of times: measured threads over the run's cores
  double mean_tflops_ = 0;                        // of all matmuls
  double quantized_tflops_ = 0;                   // of all matmuls in e4m3; 0: not measured
  std::array<double, 2> attention_tflops_{};      // forward, backward; 0: not measured
  double traffic_gb_s_ = 0, optimizer_gb_s_ = 0;  // 0: not measured
  std::array<Curve, 3> curves_;                   // all_gather, reduce_scatter, all_reduce
};

}  // namespace lt::planner
