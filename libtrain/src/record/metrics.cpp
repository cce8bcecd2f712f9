// Formats a step's row as JSON and as a console line, and summarises values over ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "record/record.h"
#include "record/short_text.h"

namespace lt::recorder {
namespace {

using Json = nlohmann::ordered_json;

std::string bytes_in_gib(Size bytes) {
  const double gib = static_cast<double>(bytes) / (1 << 30);
  return gib < 1 ? fmt::format("{:.3f}", gib) : fmt::format("{:.1f}", gib);
}

}  // namespace

OverRanks over_ranks(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {*least, sum / static_cast<double>(values.size()), *most, static_cast<int>(most - values.begin())};
}

std::string to_json_line(const StepRecord& r) {
  Json breakdown, comm = Json::array();
  Json over_ranks;
  for (std::size_t i = 0; i < kActivities; ++i) {
    const std::string name(kActivityNames[i]);
    breakdown[name] = r.breakdown_ms[i];
    const OverRanks& times = r.breakdown_over_ranks[i];
    over_ranks[name] = {{"min", times.min}, {"mean", times.mean}, {"max", times.max}, {"rank", times.rank_of_max}};
  }
  for (const CommTotal& total : r.comm) {
    const double gbps = total.busy_ms > 0 ? static_cast<double>(total.bytes) / total.busy_ms / 1e6 : 0;
    comm.push_back({{"op", std::string(to_string(total.op))},
                    {"bytes", total.bytes},
                    {"calls", total.calls},
                    {"busy_ms", total.busy_ms},
                    {"exposed_ms", total.exposed_ms},
                    {"busbw_gbps", gbps}});
  }
  Json own_ms = Json::array();
  for (const double ms : r.own_ms) own_ms.push_back(std::round(ms * 1e3) / 1e3);
  Json row = {{"step", r.step},
              {"tokens", r.tokens},
              {"loss", r.loss},
              {"loss_hex", std::isnan(r.loss) ? "nan" : fmt::format("{:a}", r.loss)},
              {"grad_norm", r.grad_norm},
              {"lr", r.lr},
              {"step_ms", r.step_ms},
              {"tokens_per_s", r.tokens_per_s},
              {"tokens_per_s_per_rank", r.tokens_per_s_per_rank},
              {"mfu", r.mfu < 0 ? Json(nullptr) : Json(r.mfu)},
              {"memory_peak_bytes", r.memory_peak_bytes},
              {"memory_outside_bytes", r.memory_outside_bytes},
              {"breakdown_ms", breakdown},
              {"comm", comm},
              {"ranks",
               {{"slowest", r.own_ms_over_ranks.rank_of_max},
                {"step_ms_min", r.step_ms_over_ranks.min},
                {"step_ms_mean", r.step_ms_over_ranks.mean},
                {"step_ms_max", r.step_ms_over_ranks.max},
                {"own_ms_min", r.own_ms_over_ranks.min},
                {"own_ms_mean", r.own_ms_over_ranks.mean},
                {"own_ms_max", r.own_ms_over_ranks.max},
                {"own_ms", own_ms},
                {"parts_ms", over_ranks}}}};
  if (r.loss_scale > 0) row["loss_scale"] = r.loss_scale;
  return row.dump();
}

std::string console_line(const StepRecord& r, double eta_s) {
  const std::string mfu = r.mfu < 0 ? "-" : fmt::format("{:.1f}%", 100 * r.mfu);
  const int digits = static_cast<int>(std::to_string(r.steps).size());
  const int ms_digits = r.step_ms < 0.1 ? 3 : r.step_ms < 10 ? 2 : r.step_ms < 100 ? 1 : 0;
  return fmt::format(
      "step {:>{}}/{} | loss {:.4f} | norm {:.3f} | lr {:.2e} | {:.{}f} ms | {} tok/s | {} mfu | {}/{} GiB | eta {}",
      r.step, std::max(5, digits), r.steps, r.loss, r.grad_norm, r.lr, r.step_ms, ms_digits,
      short_count(r.tokens_per_s), mfu, bytes_in_gib(r.memory_peak_bytes), bytes_in_gib(r.memory_total_bytes),
      short_duration(eta_s));
}

}  // namespace lt::recorder
