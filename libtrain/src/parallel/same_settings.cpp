// Lists the settings of an engine as lines to compare.
#include "parallel/same_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/same_calls.h"
#include "libtrain/error.h"

namespace lt::parallel {
namespace {

class Settings {
 public:
  template <class T>
  void add(std::string_view name, const T& value) {
    lines_.push_back(fmt::format("{} {}", name, value));
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

void add(Settings& all, const ParallelOptions& parallel) {
  const Strategy& strategy = parallel.strategy;
  all.add("strategy", strategy.name);
  const auto add_placement = [&](std::string_view name, Placement placement) {
    all.add(name, placement == Placement::sharded ? "sharded" : "replicated");
  };
  add_placement("parameters", strategy.parameters);
  add_placement("gradients", strategy.gradients);
  add_placement("optimizer", strategy.optimizer);
  all.add("reshard_after_forward", strategy.reshard_after_forward);
  all.add("shard_size", parallel.shard_size);
  all.add("recompute", nn::kRecomputeNames[static_cast<std::size_t>(parallel.recompute)]);
  all.add("recompute_every", parallel.recompute_every);
  all.add("reduce_dtype", dtype_name(parallel.reduce_dtype));
  constexpr std::string_view kDeterminism[] = {"off", "on", "elastic"};
  all.add("deterministic", kDeterminism[static_cast<std::size_t>(parallel.deterministic)]);
}

void add(Settings& all, const EngineOptions& step) {
  all.add("micro_batch", step.micro_batch);
  all.add("accum", step.accum);
  all.add("seq", step.seq);
  all.add("dtype", dtype_name(step.dtype));
  all.add("device", step.device.type == DeviceType::cuda ? "cuda" : to_string(Device{step.device.type}));
  all.add("seed", step.seed);
  all.add("initial_weights", step.initial_weights);
  all.add("cuda_graph", step.cuda_graph);
  all.add("tf32", step.tf32);
  all.add("fp8", step.fp8);
  all.add("ignored_targets", step.ignored_targets);
  all.add("z_loss", step.z_loss);
  all.add("label_smoothing", step.label_smoothing);
}

void add(Settings& all, const OptimizerGroups& optimizers) {
  all.add("lr", optimizers.lr);
  all.add("clip", optimizers.clip);
  for (const OptimizerGroup& group : optimizers.groups) {
    const Optimizer& row = group.optimizer;
    all.add("optimizer", fmt::format("{} of \"{}\"", row.name, group.match));
    all.add("lr_scale", group.lr_scale);
    all.add("betas", fmt::format("{}", fmt::join(row.betas, ", ")));
    all.add("masters", row.masters);
    for (const StateKind& state : row.states)
      all.add("state", fmt::format("{} {}", state.name, dtype_name(state.dtype)));
  }
  all.add("frozen", fmt::format("{}", fmt::join(optimizers.frozen, ", ")));
  all.add("trained", fmt::format("{}", fmt::join(optimizers.trained, ", ")));
}

void add(Settings& all, const nn::Model& model) {
  for (const nn::NamedParameter& entry : model.all_parameters()) {
    all.add("parameter", fmt::format("{} {}", entry.name, to_string(entry.parameter->shape())));
  }
}

}  // namespace

void require_same_settings(const nn::Model& model, const Group& world, const ParallelOptions& parallel,
                           const OptimizerGroups& optimizers, const EngineOptions& step) {
  Settings all;
  add(all, parallel);
  add(all, step);
  add(all, optimizers);
  add(all, model);
  const std::optional<comm::LineDifference> found = comm::first_difference(all.lines(), world);
  if (!found) return;
  throw UsageError("engine", "settings: expected those of rank 0 on all ranks, " + found->text("none"),
                   "ranks make an engine of the same model, options and optimizers");
}

}  // namespace lt::parallel
