// An engine as `train` makes it, on generated tokens or the batches of the model's row.
#include "training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "libtrain/memory/memory.h"
#include "libtrain/train/run_options.h"
#include "train/model_table.h"
#include "train/rank_device.h"

namespace lt::bench {
namespace {

// Ids below the model's vocabulary, in the shapes that it takes.
Batch random_batch(const nn::Model& model, const BatchShape& shape) {
  const MemoryScope owner(MemoryOwner::data);
  const Batch shapes = model.batch_on_meta(shape.samples(), shape.seq);
  const Size vocab = model.facts(shape.seq).vocab;
  if (vocab == 0 || shapes.inputs.dtype() != DType::i32 || shapes.targets.dtype() != DType::i32) {
    throw UsageError(
        "bench",
        fmt::format("model: expected i32 ids below a known vocabulary, or batches of the model's row; its inputs "
                    "are {}, its targets {}, its vocabulary {}",
                    dtype_name(shapes.inputs.dtype()), dtype_name(shapes.targets.dtype()), vocab));
  }
  const auto tokens = [&](std::string_view name, const Tensor& like) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(like.elements()));
    const std::uint64_t key = derive_key(static_cast<std::uint64_t>(shape.rank), name);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int32_t>(philox_word(key, i) % static_cast<std::uint64_t>(vocab));
    }
    return Tensor::from(ids, like.shape());
  };
  return {tokens("inputs", shapes.inputs), tokens("targets", shapes.targets)};
}

// That of the source, if there is one.
Batch first_batch(BatchSource* own, const nn::Model& model, const BatchShape& shape) {
  if (own == nullptr) return random_batch(model, shape);
  const MemoryScope owner(MemoryOwner::data);
  own->seek(0);
  return own->next();
}

StepOptions with_targets_of(const BatchSource* own, StepOptions options) {
  options.ignored_targets = own != nullptr && own->has_ignored_targets();
  return options;
}

std::string step_shape(const Config& config) {
  const ModelConfig& model = config.model;
  const std::string batch =
      fmt::format(" micro_batch={} accum={} seq={}", config.train.micro_batch, config.train.accum, config.train.seq);
  if (const ModelRow* const row = own_row(config)) {
    std::string shape = row->name;
    for (const ModelField& field : row->fields) {
      std::visit([&](const auto& value) { shape += fmt::format(" {}={}", field.name, value); },
                 model.own.at(field.name));
    }
    return shape + batch;
  }
  return fmt::format("{} layers={} heads={} kv_heads={} width={} ffn={} vocab={}{}", model.family, model.layers,
                     model.heads, model.kv_heads, model.width, model.ffn, model.vocab, batch);
}

// Keys that another field of a row has, or that change numbers but no work.
constexpr std::string_view kOtherKeys[] = {
    "model.from",         "parallel.strategy", "parallel.recompute", "train.steps",        "train.max_minutes",
    "train.eval_every",   "train.eval_tokens", "train.eval_steps",   "train.sample_every", "train.seed",
    "train.micro_batch",  "train.accum",       "train.global_batch", "optim.lr",           "optim.min_lr",
    "optim.warmup",       "optim.schedule",    "optim.beta1",        "optim.beta2",        "optim.eps",
    "optim.weight_decay", "optim.momentum"};

bool counts(std::string_view key) {
  const std::string_view section = key.substr(0, key.find('.'));
  return (section == "model" || section == "parallel" || section == "train" || section == "optim") &&
         std::ranges::find(kOtherKeys, key) == std::end(kOtherKeys);
}

// "optim.name=muon train.tf32=true".
std::string other_options(const Config& config) {
  Config plain = default_config(config.models);  // a step of this shape with all other keys at their defaults
  ModelConfig& model = plain.model;
  model.own = config.model.own;
  model.preset = config.model.preset, model.family = config.model.family, model.layers = config.model.layers;
  model.heads = config.model.heads, model.kv_heads = config.model.kv_heads, model.width = config.model.width;
  model.ffn = config.model.ffn, model.vocab = config.model.vocab, model.max_seq = config.model.max_seq;
  plain.train.seq = config.train.seq, plain.train.dtype = config.train.dtype;
  const auto defaults = flatten(resolve(plain));
  std::string text;
  for (const auto& [key, value] : flatten(config)) {
    if (!counts(key) || defaults.at(key) == value) continue;
    const bool is_text = value.size() >= 2 && value.front() == '"' && value.back() == '"';
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, is_text ? value.substr(1, value.size() - 2) : value);
  }
  return text;
}

}  // namespace

double sum(const ActivityTimes& times) {
  double total = 0;
  for (const double ms : times) total += ms;
  return total;
}

Training::Training(const Config& config, const Group& group, const StepOptions& options)
    : model_(made_by_all(group, [&] { return make_model(config); })),
      batches_(
          made_by_all(group, [&] { return own_batches(config, batch_shape(config, group.rank(), group.size())); })),
      engine_(*model_, group_for(group, config, options.device), parallel_options(config), optimizers_of(config),
              with_targets_of(batches_.get(), options)),
      batch_(first_batch(batches_.get(), *model_, engine_.batch_shape())) {}

std::vector<ActivityTimes> Training::time_steps(Size count) {
  ActivityClock clock(engine_.options().device);
  const ActivityClockScope current(&clock);
  std::vector<ActivityTimes> times;
  struct Issued {
    StepResult result;
    Lap lap;
  };
  std::optional<Issued> issued;
  const auto finish = [&] {  // a graph keeps the times of its last launch only: read them before it is launched again
    if (!issued) return;
    if (const float loss = issued->result.loss(); !std::isfinite(loss)) {
      throw NonFiniteError(fmt::format("bench: loss: expected a finite number, got {}", loss));
    }
    times.push_back(issued->lap.times());
  };
  for (Size i = 0; i < count; ++i) {
    const StepResult result = engine_.step(batch_);
    const Lap lap = clock.lap();
    finish();
    issued = Issued{result, lap};
  }
  finish();
  return times;
}

double Training::flops() const {
  return model_->facts(engine_.batch_shape().seq).flops_per_token * static_cast<double>(tokens());
}

Json step_identity(const Config& config, int ranks, const std::string& strategy) {
  Json identity = {{"name", model_name(config)},  {"shape", step_shape(config)},
                   {"dtype", config.train.dtype}, {"ranks", ranks},
                   {"strategy", strategy},        {"recompute", config.parallel.recompute}};
  if (const std::string options = other_options(config); !options.empty()) identity["options"] = options;
  return identity;
}

}  // namespace lt::bench
