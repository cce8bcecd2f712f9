// Selects and interpolates the measured rates of a run.
#include "plan/run_rates.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lt::planner {
namespace {

// In a step, attention takes this much longer on a GPU than alone, one call after the other
// (docs/explanation/planning.md).
constexpr double kAttentionInStep = 1.15;

// In the order of their sizes. Two files may have measured the same one.
std::vector<std::pair<double, double>> means_of_equal_sizes(std::vector<std::pair<double, double>> points) {
  std::sort(points.begin(), points.end());
  std::vector<std::pair<double, double>> means;
  for (auto first = points.begin(), last = first; first != points.end(); first = last) {
    double ms = 0;
    for (last = first; last != points.end() && last->first == first->first; ++last) ms += last->second;
    means.emplace_back(first->first, ms / static_cast<double>(last - first));
  }
  return means;
}

double ratio(Size a, Size b) { return std::fabs(std::log(static_cast<double>(a) / static_cast<double>(b))); }

}  // namespace

RunRates::RunRates(const MeasuredRates& rates, const RatesUse& use)
    : has_kernels_(!rates.matmuls.empty() || !rates.attention.empty()),
      scale_(rates.gpu.empty() ? static_cast<double>(rates.threads) / use.cores : 1) {
  const auto mean_tflops = [&](DType dtype) {
    double flops = 0, ms = 0;
    for (const MeasuredRates::Matmul& matmul : rates.matmuls) {
      if (matmul.dtype != dtype) continue;
      flops += 2.0 * static_cast<double>(matmul.M) * static_cast<double>(matmul.N) * static_cast<double>(matmul.K);
      ms += matmul.ms;
    }
    return ms > 0 ? flops / ms * 1e-9 : 0;
  };
  mean_tflops_ = mean_tflops(use.dtype), quantized_tflops_ = mean_tflops(DType::e4m3);
  for (const MeasuredRates::Matmul& matmul : rates.matmuls) {
    if (matmul.dtype == use.dtype) matmuls_.push_back(matmul);
  }
  for (const bool backward : {false, true}) {
    double nearest = HUGE_VAL;
    for (const MeasuredRates::Attention& row : rates.attention) {
      const double distance = ratio(row.T, use.seq) + ratio(row.D, use.head_dim);
      if (row.dtype != use.dtype || row.backward != backward || distance >= nearest) continue;
      nearest = distance;
      attention_tflops_.at(backward ? 1 : 0) = row.flops / row.ms * 1e-9 / (rates.gpu.empty() ? 1 : kAttentionInStep);
    }
  }
  // The passes of a block: two norms and the activation. They stand for all traffic of activations.
  double bytes = 0, pass_ms = 0;
  for (const MeasuredRates::Pass& pass : rates.passes) {
    if (pass.dtype != use.dtype) continue;
    const bool norm = pass.name.starts_with(use.gated_ffn ? "rms_norm." : "layer_norm.");
    const bool activation = pass.name.starts_with(use.gated_ffn ? "swiglu." : "gelu.");
    if (norm || activation) bytes += (norm ? 2 : 1) * pass.bytes, pass_ms += (norm ? 2 : 1) * pass.ms;
    if (pass.name == "adamw") optimizer_gb_s_ = pass.bytes / pass.ms * 1e-6;
  }
  if (pass_ms > 0) traffic_gb_s_ = bytes / pass_ms * 1e-6;
  for (std::size_t op = 0; op < curves_.size(); ++op) {
    Curve& curve = curves_.at(op);
    const auto is_of = [&](const MeasuredRates::Collective& row, bool in_window) {
      return row.name == kCollectives[op] && row.in_window == in_window;
    };
    const bool in_window = std::any_of(rates.collectives.begin(), rates.collectives.end(),
                                       [&](const auto& row) { return is_of(row, true); });
    for (const MeasuredRates::Collective& row : rates.collectives) {
      if (!is_of(row, in_window)) continue;
      curve.ranks = row.ranks;
      const double rounds = op == 2 ? 2 : 1;
      curve.points.emplace_back(rounds * row.bytes * (row.ranks - 1) / row.ranks, row.ms);
    }
    curve.points = means_of_equal_sizes(std::move(curve.points));
  }
}

bool RunRates::is_empty() const {
  const bool has_rate = !matmuls_.empty() || quantized_tflops_ > 0 || attention_tflops_[0] > 0 ||
                        attention_tflops_[1] > 0 || traffic_gb_s_ > 0 || optimizer_gb_s_ > 0;
  const bool has_curve = std::ranges::any_of(curves_, [](const Curve& curve) { return !curve.points.empty(); });
  return !has_rate && (has_kernels_ || !has_curve);
}

double RunRates::ms(Size M, Size N, Size K) const {
  double nearest = HUGE_VAL, flops = 0, ms = 0;
  for (const MeasuredRates::Matmul& row : matmuls_) {
    const double distance = ratio(row.M, M) + ratio(row.N, N) + ratio(row.K, K);
    if (distance > nearest) continue;
    if (distance < nearest) flops = ms = 0;  // equal sizes share a mean
    nearest = distance;
    flops += static_cast<double>(row.M) * static_cast<double>(row.N) * static_cast<double>(row.K), ms += row.ms;
  }
  return static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K) * ms / flops * scale_;
}

double RunRates::matmuls_ms(double flops) const { return flops / mean_tflops_ * 1e-9 * scale_; }

std::optional<double> RunRates::quantized_matmuls_ms(double flops) const {
  return quantized_tflops_ > 0 ? std::optional(flops / quantized_tflops_ * 1e-9 * scale_) : std::nullopt;
}

std::optional<double> RunRates::attention_ms(double forward_flops, double backward_flops) const {
  const auto [forward, backward] = attention_tflops_;
  if (forward == 0 || backward == 0) return std::nullopt;
  return (forward_flops / forward + backward_flops / backward) * 1e-9 * scale_;
}

std::optional<double> RunRates::traffic_ms(double bytes) const {
  if (traffic_gb_s_ == 0) return std::nullopt;
  return bytes / traffic_gb_s_ * 1e-6 * scale_;
}

std::optional<double> RunRates::optimizer_ms(double bytes) const {
  if (optimizer_gb_s_ == 0) return std::nullopt;
  return bytes / optimizer_gb_s_ * 1e-6 * scale_;
}

// Linear between measured sizes. Below the smallest: the line through the first two, but never less than in proportion
// to the size. Above the largest: at its rate.
double RunRates::Curve::at(double sent) const {
  if (sent >= points.back().first || points.size() == 1) return points.back().second * sent / points.back().first;
  auto upper = std::upper_bound(points.begin(), points.end(), std::pair{sent, HUGE_VAL});
  if (upper == points.begin()) ++upper;
  const auto [b0, t0] = *(upper - 1);
  const auto [b1, t1] = *upper;
  const double ms = t0 + (t1 - t0) * (sent - b0) / (b1 - b0);
  return std::max(ms, t0 * std::min(1.0, sent / b0));
}

std::optional<double> RunRates::collective_ms(Lane lane, const CollectiveShape& shape, double hop_us) const {
  const Curve& curve = curves_.at(shape.rounds == 2 ? 2 : lane == Lane::gather ? 0 : 1);
  if (curve.points.empty() || shape.ranks < 2) return std::nullopt;
  const double hops = std::max(0, shape.ranks - curve.ranks) * shape.rounds;
  return curve.at(static_cast<double>(shape.bytes)) + hops * hop_us * 1e-3;
}

}  // namespace lt::planner
