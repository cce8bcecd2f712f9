// Reads measured rates, and selects and interpolates those of a run.
#include "train/measured_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/json_file.h"
#include "libtrain/error.h"

namespace lt {
namespace {

using Json = nlohmann::ordered_json;

// In a step, attention takes this much longer on a GPU than alone, one call after the other (docs/kernels.md: 14 to
// 17 %).
constexpr double kAttentionInStep = 1.15;

constexpr const char* kCollectives[] = {"all_gather", "reduce_scatter", "all_reduce"};

class RatesReader {
 public:
  RatesReader(MeasuredRates& rates, const std::string& path) : rates_(rates), path_(path) {}

  void read() {
    const Json document = read_json_file("plan", path_);
    require(document.is_object(), "the whole", "an object", document);
    const Json benchmark = document.value("benchmark", Json()), rows = document.value("rows", Json());
    require(benchmark == "kernels" || benchmark == "comm" || benchmark == "rates", "benchmark",
            "kernels, comm or rates", benchmark);
    require(document.value("schema", Json()) == 1, "schema", "1", document.value("schema", Json()));
    require(rows.is_array(), "rows", "an array", rows);
    read_machine(document);
    for (std::size_t i = 0; i < rows.size(); ++i) read_row(rows[i], fmt::format("rows[{}]", i));
  }

 private:
  void require(bool holds, const std::string& what, const std::string& expected, const Json& actual) const {
    if (holds) return;
    throw DataError("plan",
                    fmt::format("{}: {}: expected {}, got {}", path_, what, expected,
                                actual.is_null() ? "nothing" : actual.dump().substr(0, 60)),
                    "rates are what `ltrain bench rates --out FILE` writes");
  }

  void read_machine(const Json& document) {
    const Json machine = document.value("machine", Json());
    require(machine.is_object(), "machine", "an object", machine);
    const Json gpu = machine.value("gpu", Json());
    require(gpu.is_null() || gpu.is_string(), "machine.gpu", "a name or null", gpu);
    // A machine with GPUs may have measured its CPU; results of earlier versions do not say so.
    const bool on_gpu = document.value("device", Json(gpu.is_null() ? "cpu" : "cuda")) == "cuda" && gpu.is_string();
    const std::string name = on_gpu ? gpu.get<std::string>() : "";
    const std::string before = rates_.gpu.empty() ? "no GPU" : rates_.gpu;
    require(rates_.files.empty() || rates_.gpu == name, "machine.gpu", before + ", as in the file before", gpu);
    rates_.gpu = name;
    if (document.at("benchmark") != "comm" && !on_gpu) read_threads(document);
    rates_.files.push_back(path_);
  }

  void read_threads(const Json& document) {
    const Json peaks = document.value("peaks", Json());
    require(peaks.is_object(), "peaks", "an object", peaks);
    const int threads = count(peaks, "threads", "peaks");
    const bool is_first = rates_.products.empty() && rates_.passes.empty();
    require(is_first || rates_.threads == threads, "peaks.threads", fmt::format("{}, as before", rates_.threads),
            threads);
    rates_.threads = threads;
  }

  double number(const Json& object, const char* key, const std::string& at) const {
    const Json value = object.value(key, Json());
    require(value.is_number() && value.get<double>() > 0 && value.get<double>() < 1e30, at + "." + key,
            "a number above 0", value);
    return value.get<double>();
  }

  int count(const Json& object, const char* key, const std::string& at) const {
    constexpr int kMost = 1 << 20;
    const Json value = object.value(key, Json());
    require(value.is_number_integer() && value.get<std::int64_t>() >= 1 && value.get<std::int64_t>() <= kMost,
            at + "." + key, fmt::format("an integer from 1 to {}", kMost), value);
    return value.get<int>();
  }

  void read_row(const Json& row, const std::string& at) {
    require(row.is_object(), at, "an object", row);
    const auto text = [&](const char* key) {
      const Json value = row.value(key, Json(""));
      require(value.is_string(), at + "." + key, "a text", value);
      return value.get<std::string>();
    };
    const std::string name = text("name"), shape = text("shape"), implementation = text("implementation");
    const Json times = row.value("ms", Json());
    require(times.is_object(), at + ".ms", "an object", times);
    const double ms = number(times, "median", at + ".ms");
    const auto found = std::find(std::begin(kCollectives), std::end(kCollectives), name);
    if (found != std::end(kCollectives)) {
      const int ranks = count(row, "ranks", at);
      if (ranks < 2) return;
      const int before = rates_.collectives.empty() ? ranks : rates_.collectives.front().ranks;
      require(ranks == before, at + ".ranks", fmt::format("{}, as before", before), ranks);
      rates_.collectives.push_back({name, implementation == "window", ranks, number(row, "bytes", at), ms});
      return;
    }
    const std::string dtype_name = text("dtype");
    if (dtype_name != "f32" && dtype_name != "bf16") return;
    const DType dtype = dtype_name == "f32" ? DType::f32 : DType::bf16;
    Size a = 0, b = 0, c = 0, d = 0, e = 0;
    if (name.starts_with("gemm.")) {
      require(std::sscanf(shape.c_str(), "M=%ld N=%ld K=%ld", &a, &b, &c) == 3 && std::min({a, b, c}) > 0,
              at + ".shape", "M=... N=... K=...", shape);
      if (a > 1) rates_.products.push_back({dtype, a, b, c, ms});  // one row is the product of generation
    } else if (name == "attention.forward" || name == "attention.backward") {
      if (implementation != (rates_.gpu.empty() ? "tiled" : "library")) return;  // the one that steps use
      require(std::sscanf(shape.c_str(), "B=%ld T=%ld H=%ld G=%ld D=%ld", &a, &b, &c, &d, &e) == 5 &&
                  std::min({a, b, c, d, e}) > 0,
              at + ".shape", "B=... T=... H=... G=... D=...", shape);
      rates_.attention.push_back({dtype, b, e, name.ends_with("backward"), number(row, "flops", at), ms});
    } else if (!name.starts_with("attention")) {
      rates_.passes.push_back({name, dtype, number(row, "bytes", at), ms});
    }
  }

  MeasuredRates& rates_;
  const std::string& path_;
};

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

std::shared_ptr<const MeasuredRates> read_rates(const std::vector<std::string>& files) {
  const auto rates = std::make_shared<MeasuredRates>();
  for (const std::string& file : files) RatesReader(*rates, file).read();
  return rates;
}

RunRates::RunRates(const MeasuredRates& rates, const RatesUse& use)
    : scale_(rates.gpu.empty() ? static_cast<double>(rates.threads) / use.cores : 1) {
  double flops = 0, ms = 0;
  for (const MeasuredRates::Product& product : rates.products) {
    if (product.dtype != use.dtype) continue;
    products_.push_back(product);
    flops += 2.0 * static_cast<double>(product.M) * static_cast<double>(product.N) * static_cast<double>(product.K);
    ms += product.ms;
  }
  if (ms > 0) mean_tflops_ = flops / ms * 1e-9;
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

double RunRates::ms(Size M, Size N, Size K) const {
  double nearest = HUGE_VAL, flops = 0, ms = 0;
  for (const MeasuredRates::Product& row : products_) {
    const double distance = ratio(row.M, M) + ratio(row.N, N) + ratio(row.K, K);
    if (distance > nearest) continue;
    if (distance < nearest) flops = ms = 0;  // equal sizes share a mean
    nearest = distance;
    flops += static_cast<double>(row.M) * static_cast<double>(row.N) * static_cast<double>(row.K), ms += row.ms;
  }
  return static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K) * ms / flops * scale_;
}

double RunRates::products_ms(double flops) const { return flops / mean_tflops_ * 1e-9 * scale_; }

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

}  // namespace lt
