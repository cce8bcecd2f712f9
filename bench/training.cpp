// An engine as `train` makes it, on generated tokens.
#include "training.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "libtrain/memory/memory.h"
#include "libtrain/train/run_options.h"
#include "train/rank_device.h"

namespace lt::bench {
namespace {

Batch random_batch(const BatchShape& shape, Size vocab) {
  const MemoryScope owner(MemoryOwner::data);
  const auto tokens = [&](std::string_view name) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.samples() * shape.seq));
    const std::uint64_t key = derive_key(static_cast<std::uint64_t>(shape.rank), name);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int32_t>(philox_word(key, i) % static_cast<std::uint64_t>(vocab));
    }
    return Tensor::from(ids, {shape.samples(), shape.seq});
  };
  return {tokens("inputs"), tokens("targets")};
}

}  // namespace

double sum(const ActivityTimes& times) {
  double total = 0;
  for (const double ms : times) total += ms;
  return total;
}

Training::Training(const Config& config, const Group& group, const StepOptions& options)
    : model_(nn::make_transformer(model_spec(config))),
      engine_(*model_, group_for(group, config, options.device), parallel_options(config), optimizers_of(config),
              options),
      batch_(random_batch(engine_.batch_shape(), model_->spec().vocab)) {}

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
  return model_->flops_per_token(engine_.batch_shape().seq) * static_cast<double>(tokens());
}

std::string step_shape(const Config& config) {
  const ModelConfig& model = config.model;
  return fmt::format("{} layers={} heads={} kv_heads={} width={} ffn={} vocab={} micro_batch={} accum={} seq={}",
                     model.family, model.layers, model.heads, model.kv_heads, model.width, model.ffn, model.vocab,
                     config.train.micro_batch, config.train.accum, config.train.seq);
}

}  // namespace lt::bench
