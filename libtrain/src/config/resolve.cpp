// Turns a complete configuration into the options of each component.
#include "libtrain/config/resolved.h"

#include <utility>

#include "config/derive.h"
#include "config/model_table.h"
#include "config/optimizer_choices.h"
#include "config/resolve.h"
#include "nn/lora.h"

namespace lt::config {
namespace {

ParallelOptions parallel_options(const Config& config) {
  const ParallelConfig& parallel = config.parallel;
  return {parallel.strategy,     static_cast<int>(parallel.shard_size),
          parallel.recompute,    parallel.recompute_every,
          parallel.reduce_dtype, config.train.deterministic};
}

EngineOptions step_options(const Config& config) {
  const TrainConfig& train = config.train;
  return {.micro_batch = train.micro_batch,
          .accum = train.accum,
          .seq = train.seq,
          .dtype = compute_dtype(train.dtype.value()),
          .device = {train.device.value(), 0},
          .seed = train.seed,
          .cuda_graph = train.cuda_graph.value(),
          .tf32 = train.tf32,
          .fp8 = train.dtype == Precision::fp8,
          .z_loss = train.z_loss,
          .label_smoothing = train.label_smoothing};
}

OptimizerGroups optimizers_of(const Config& config) {
  const OptimConfig& optim = config.optim;
  OptimizerGroups made({}, optim.lr, optim.clip);
  const auto add = [&](const std::string& name, const std::string& match, double weight_decay, double lr_scale) {
    for (const OptimizerChoice* choice : rows_of_optimizer(name)) {
      made.groups.push_back({match, choice->make(optim, weight_decay), lr_scale});
    }
  };
  for (const OptimGroupConfig& group : optim.groups) {
    add(optimizer_of(group, optim), group.match, group.weight_decay < 0 ? optim.weight_decay : group.weight_decay,
        group.lr_scale);
  }
  if (!has_own_optimizers(config)) add(optim.name, "*", optim.weight_decay, 1);
  made.frozen = config.model.freeze;
  if (nn::has_adapters(config.model)) made.trained = {"*" + std::string(nn::kLoraA), "*" + std::string(nn::kLoraB)};
  if (optim.ema > 0) {
    for (OptimizerGroup& group : made.groups) group.optimizer = averaged(std::move(group.optimizer), optim.ema);
  }
  return made;
}

Resume resume_of(const std::string& resume) {
  return resume == "auto" ? Resume::automatic : resume == "never" ? Resume::never : Resume::folder;
}

}  // namespace

DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::f32: return DType::f32;
    case Precision::f16: return DType::f16;
    case Precision::bf16:
    case Precision::fp8: break;
  }
  return DType::bf16;
}

DataSpec data_spec(const Config& config) {
  const DataConfig& data = config.data;
  DataSpec spec{.sources = data.sources,
                .key = data.sources.empty() ? "data.train" : "data.sources",
                .val = data.val,
                .documents = data.documents,
                .epochs = data.epochs,
                .seed = data.seed,
                .shuffle = data.shuffle,
                .format = data.format};
  if (spec.sources.empty() && !data.train.empty()) spec.sources = {{data.train, 1}};
  return spec;
}

Schedule schedule_of(const Config& config) {
  const OptimConfig& optim = config.optim;
  return {optim.schedule, optim.lr, optim.min_lr, optim.warmup, config.train.steps};
}

}  // namespace lt::config

namespace lt {

Resolved resolve(const Config& given, int ranks, DeviceType automatic) {
  Config config = config::complete(given, ranks, automatic);
  const TrainConfig& train = config.train;
  Resolved resolved;
  if (config::is_transformer(config)) resolved.transformer = config::model_spec(config);
  resolved.weights = config.model;
  resolved.data = config::data_spec(config);
  resolved.parallel = config::parallel_options(config);
  resolved.backend = config.parallel.backend;
  resolved.precision = train.dtype.value();
  resolved.step = config::step_options(config);
  resolved.given_accum = given.train.accum;
  resolved.optimizers = config::optimizers_of(config);
  resolved.schedule = config::schedule_of(config);
  resolved.max_minutes = train.max_minutes;
  resolved.skip_nonfinite = train.skip_nonfinite;
  resolved.evaluation = {.every = train.eval_every, .tokens = train.eval_tokens};
  resolved.sample_every = train.sample_every;
  resolved.checkpoint = config.checkpoint;
  resolved.resume = config::resume_of(config.checkpoint.resume);
  resolved.record = config.record;
  resolved.watchdog = {config.watchdog.heartbeat_s, config.watchdog.collective_s, config.watchdog.init_s};
  resolved.run = config.run;
  resolved.config = std::move(config);
  return resolved;
}

}  // namespace lt
