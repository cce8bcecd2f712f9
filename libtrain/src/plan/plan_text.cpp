// Writes a plan as JSON for programs and as text for people.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "config/names.h"
#include "drawing/arena_drawing.h"
#include "drawing/text.h"
#include "libtrain/plan/planner.h"
#include "plan/device_model.h"
#include "plan/measured_rates.h"
#include "plan/plan_text.h"
#include "record/short_text.h"

namespace lt {
namespace {

using drawing::bytes_text;
using Json = nlohmann::ordered_json;

Size total_bytes(const std::vector<CommTotal>& totals) {
  Size sum = 0;
  for (const CommTotal& total : totals) sum += total.bytes;
  return sum;
}

// One contribution to a step's duration, with advice on how to shorten it.
struct Bound {
  const char* name;
  double ms;
  std::string advice;
};

std::string matmul_advice(const Plan& plan) {
  const planner::DeviceModel& device = planner::find_device_model(plan.machine.device);
  if (plan.dtype != Precision::f32) {
    const double gain = device.matmul_tflops_fp8 / device.matmul_tflops_bf16;
    if (plan.dtype == Precision::fp8 || gain <= 1) return "matmuls, as it should be";
    return fmt::format("matmuls, as it should be; in train.dtype=fp8 the device does {:.2g} times as many a second",
                       gain);
  }
  return fmt::format("matmuls: in train.dtype=bf16 the device does {:.2g} times as many a second",
                     device.matmul_tflops_bf16 / device.matmul_tflops_f32);
}

std::string traffic_advice(const Plan& plan) {
  const StepTime& time = plan.step_time;
  if (2 * time.breakdown_ms[static_cast<std::size_t>(Activity::optimizer)] > time.traffic_ms) {
    return "memory traffic, most of it the optimizer's: a larger train.micro_batch or train.accum spreads it over more "
           "tokens";
  }
  if (plan.dtype == Precision::f32) return "memory traffic: train.dtype=bf16 halves that of activations";
  return plan.recompute == Recompute::none ? "memory traffic of activations"
                                           : "memory traffic of activations: parallel.recompute=none repeats no pass";
}

std::string exposed_advice(const Plan& plan, const char* where, bool between_nodes) {
  if (between_nodes && plan.faster_shard_size) {
    return fmt::format(
        "collectives {} that nothing hides: with parallel.shard_size={} the estimate is {:.2g} times as "
        "many tokens/s",
        where, *plan.faster_shard_size, plan.faster_tokens_per_s / plan.tokens_per_s);
  }
  return fmt::format("collectives {} that nothing hides: a larger train.micro_batch {}", where,
                     planner::find_device_model(plan.machine.device).overlaps ? "gives them more to hide behind"
                                                                              : "makes them a smaller part of a step");
}

// Sorted by time, longest first.
auto bounds(const Plan& plan) {
  // In the order of StepTime::parts().
  const std::string advice[] = {matmul_advice(plan),
                                "attention: a shorter train.seq spends less of a step on it",
                                traffic_advice(plan),
                                "overhead of operations: fewer and larger operations have less",
                                "compute slowed by collectives: a larger train.micro_batch or train.accum has fewer "
                                "collectives for the same work",
                                exposed_advice(plan, "inside a node", false),
                                exposed_advice(plan, "between nodes", true)};
  const auto parts = plan.step_time.parts();
  std::array<Bound, parts.size()> all;
  for (std::size_t i = 0; i < all.size(); ++i) all.at(i) = {parts.at(i).first, parts.at(i).second, advice[i]};
  std::sort(all.begin(), all.end(), [](const Bound& a, const Bound& b) { return a.ms > b.ms; });
  return all;
}

Json estimate_json(const Plan& plan) {
  const StepTime& time = plan.step_time;
  Json breakdown;
  for (std::size_t i = 0; i < kActivities; ++i) breakdown[std::string(kActivityNames[i])] = time.breakdown_ms[i];
  Json json = {{"compute", time.compute_ms()}, {"exposed_comm", time.exposed_ms()},
               {"total", time.total_ms()},     {"device", plan.machine.device},
               {"cores", plan.machine.cores},  {"ranks_per_node", std::min(plan.machine.ranks_per_node, plan.ranks)}};
  for (const Bound& bound : bounds(plan)) {
    if (bound.name != std::string_view("overhead") || bound.ms > 0) json[bound.name] = bound.ms;
  }
  json["collectives"] = time.collectives_ms;
  json["breakdown_ms"] = breakdown;
  json["tokens_per_s"] = plan.tokens_per_s;
  json["mfu"] = plan.mfu < 0 ? Json(nullptr) : Json(plan.mfu);
  json["rates"] = plan.machine.rates == nullptr ? Json(nullptr) : Json(plan.machine.rates->files);
  json["run_s"] = plan.steps > 0 ? Json(time.total_ms() / 1e3 * static_cast<double>(plan.steps)) : Json(nullptr);
  json["bound_by"] = bounds(plan).front().name;
  json["faster_shard_size"] = plan.faster_shard_size ? Json(*plan.faster_shard_size) : Json(nullptr);
  return json;
}

// Equal values of consecutive ranks are one entry.
Json runs_json(const std::vector<Size>& per_rank) {
  Json runs = Json::array();
  for (auto begin = per_rank.begin(); begin != per_rank.end();) {
    const auto end = std::find_if(begin, per_rank.end(), [&](Size bytes) { return bytes != *begin; });
    runs.push_back({{"ranks", end - begin}, {"bytes", *begin}});
    begin = end;
  }
  return runs;
}

std::string estimate_text(const Plan& plan) {
  const StepTime& time = plan.step_time;
  const auto line = [&](const char* name, double ms, const std::string& more = "") {
    return fmt::format("  {:<14} {:>11.3f} ms {:>4.0f} %{}\n", name, ms, 100 * ms / time.total_ms(), more);
  };
  const int node = plan.machine.ranks_per_node;
  std::string text = fmt::format(
      "a step on {}, {}, estimated by the rates in {}\n", planner::device_text(plan.machine),
      plan.ranks <= node ? std::string("one node") : fmt::format("{} rank{} a node", node, node == 1 ? "" : "s"),
      plan.machine.rates == nullptr ? "docs/explanation/planning.md"
                                    : fmt::format("{}", fmt::join(plan.machine.rates->files, ", ")));
  text += line("matmuls", time.matmuls_ms) + line("attention", time.attention_ms);
  text += line("memory traffic", time.traffic_ms);
  if (time.overhead_ms > 0) text += line("overhead", time.overhead_ms, ", fixed time of each operation");
  if (time.contention_ms > 0)
    text += line("contention", time.contention_ms, ", compute slowed by concurrent collectives");
  const std::string hidden = fmt::format(", of {:.3f} ms that collectives take", time.collectives_ms);
  text += line("exposed", time.exposed_ms(), plan.ranks > 1 ? hidden : "");
  text += line("step", time.total_ms(),
               fmt::format(", {} tokens/s{}", recorder::short_count(plan.tokens_per_s),
                           plan.mfu < 0 ? "" : fmt::format(", {:.1f} % mfu", 100 * plan.mfu)));
  if (plan.steps > 0) {
    text +=
        fmt::format("  {:<14} {:>11} for {} steps, {} tokens\n", "run",
                    recorder::short_duration(time.total_ms() / 1e3 * static_cast<double>(plan.steps)), plan.steps,
                    recorder::short_count(static_cast<double>(plan.steps) * static_cast<double>(plan.tokens_per_step)));
  }
  text += "bound by\n";
  for (const Bound& bound : bounds(plan)) {
    const double share = bound.ms / time.total_ms();
    if (share >= 0.1) text += fmt::format("  {:>3.0f} % {}\n", 100 * share, bound.advice);
  }
  text.pop_back();
  return text;
}

// How far the peak lies below or above what the device's memory has room for; empty for a device without a size.
std::string beside_device(const Plan& plan) {
  if (plan.device_bytes == 0) return "";
  const Size left = plan.device_bytes - plan.outside_bytes - plan.peak_bytes;
  return fmt::format(", {} {} than {} of the {} of {}", bytes_text(std::abs(left)), left < 0 ? "more" : "less",
                     plan.ranks > 1 ? "CUDA and NCCL leave" : "CUDA leaves", bytes_text(plan.device_bytes),
                     plan.machine.device);
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json ledger, comm = Json::array();
  for (const MemoryOwner owner : planner::owners_shown(plan.ledger))
    ledger[planner::name_of(owner)] = plan.ledger.of(owner);
  for (const CommTotal& total : plan.comm) {
    comm.push_back({{"op", std::string(to_string(total.op))}, {"bytes", total.bytes}, {"calls", total.calls}});
  }
  return Json{{"model", Json::parse(plan.model_json)},
              {"strategy", config::name_of(plan.strategy)},
              {"recompute", config::name_of(plan.recompute)},
              {"dtype", config::name_of(plan.dtype)},
              {"ranks", plan.ranks},
              {"shard_size", plan.shard_size},
              {"micro_batch", plan.micro_batch},
              {"accum", plan.accum},
              {"peak_bytes", plan.peak_bytes},
              {"per_rank", plan.per_rank},
              {"per_rank_runs", runs_json(plan.per_rank)},
              {"ledger", ledger},
              {"host_bytes", plan.host_bytes},
              {"host_bytes_if_free", plan.host_bytes_if_free},
              {"device_bytes", plan.device_bytes > 0 ? Json(plan.device_bytes) : Json(nullptr)},
              {"outside_bytes", plan.outside_bytes},
              {"fits", plan.fits_device()},
              {"arena",
               {{"bytes", plan.arena_bytes},
                {"live_bytes", plan.arena_live_bytes},
                {"without_arena_bytes", plan.without_arena_bytes}}},
              {"parameters", plan.parameters},
              {"flops_per_token", plan.flops_per_token},
              {"tokens_per_step", plan.tokens_per_step},
              {"comm", comm},
              {"comm_bytes", total_bytes(plan.comm)},
              {"step_ms_estimate", estimate_json(plan)},
              {"formulas",
               {{"parameters", plan.formula_parameters},
                {"gradients", plan.formula_gradients},
                {"optimizer", plan.formula_optimizer}}}}
      .dump(2, ' ', false, Json::error_handler_t::replace);  // a path may be any bytes
}

std::string to_svg(const Plan& plan) { return drawing::arena_svg(plan.step_memory); }

std::string to_text(const Plan& plan) {
  const auto size = [](double bytes) { return fmt::format(" {:>11}", bytes_text(bytes)); };
  std::string text = fmt::format("{}; {}, recompute {}, {}\n", plan.model, plan.strategy.name,
                                 config::name_of(plan.recompute), config::name_of(plan.dtype));
  text += fmt::format("{} parameters, {}{} tokens a step on {} rank{}\n\n",
                      recorder::short_count(static_cast<double>(plan.parameters)),
                      plan.flops_per_token > 0 ? recorder::short_count(plan.flops_per_token) + " FLOP a token, " : "",
                      plan.tokens_per_step, plan.ranks, plan.ranks == 1 ? "" : "s");
  text += "memory of a rank at its peak     by formula (state alone)\n";
  for (const MemoryOwner owner : planner::owners_shown(plan.ledger)) {
    const double formula = owner == MemoryOwner::parameters  ? plan.formula_parameters
                           : owner == MemoryOwner::gradients ? plan.formula_gradients
                           : owner == MemoryOwner::optimizer ? plan.formula_optimizer
                                                             : 0;
    text += fmt::format("  {:<14}{}", planner::name_of(owner), size(static_cast<double>(plan.ledger.of(owner))));
    text += formula > 0 ? size(formula) + "\n" : "\n";
  }
  text += fmt::format("  {:<14}{}, {} bytes{}\n", "peak", size(static_cast<double>(plan.peak_bytes)), plan.peak_bytes,
                      beside_device(plan));
  if (plan.host_bytes > 0) {
    text +=
        fmt::format("  {:<14}{}, for copies of the state\n", "host memory", size(static_cast<double>(plan.host_bytes)));
  }
  if (plan.host_bytes_if_free > 0) {
    text += fmt::format("  {:<14}{}, for saves while training continues, if twice as much is free\n", "host memory",
                        size(static_cast<double>(plan.host_bytes_if_free)));
  }
  text += "\narena, in the owners above\n";
  text += fmt::format("  {:<14}{}\n", "size", size(static_cast<double>(plan.arena_bytes)));
  text +=
      fmt::format("  {:<14}{}, size / live {:.4f}\n", "live at most", size(static_cast<double>(plan.arena_live_bytes)),
                  static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.arena_live_bytes));
  text += fmt::format("  {:<14}{}, each size with blocks of its own\n\n", "without it",
                      size(static_cast<double>(plan.without_arena_bytes)));
  text += "sent by a rank in a step\n";
  for (const CommTotal& total : plan.comm) {
    text += fmt::format("  {:<14}{} in {} call{}\n", to_string(total.op), size(static_cast<double>(total.bytes)),
                        total.calls, total.calls == 1 ? "" : "s");
  }
  text += fmt::format("  {:<14}{}\n\n", "all", size(static_cast<double>(total_bytes(plan.comm))));
  return text + estimate_text(plan);
}

}  // namespace lt
