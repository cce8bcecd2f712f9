// Makes an engine like `train` does, with generated tokens or with the batches of the model's row.
#include "bench/training.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>

#include "config/model_table.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "libtrain/memory/memory.h"
#include "run/algorithms.h"
#include "run/rank_device.h"

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

EngineOptions with_targets_of(const BatchSource* own, EngineOptions options) {
  options.ignored_targets = own != nullptr && own->has_ignored_targets();
  return options;
}

}  // namespace

double sum(const ActivityTimes& times) {
  double total = 0;
  for (const double ms : times) total += ms;
  return total;
}

EngineOptions step_options_with_algorithms(const Resolved& resolved, const World& world) {
  EngineOptions options;
  collectively(world.group(), [&] { options = run::step_options_of_rank(resolved, world); });
  run::share_algorithms(resolved.config.train.algorithms, world.group(), options.device);
  return options;
}

Training::Training(const Resolved& resolved, const Group& group, const EngineOptions& options)
    : model_(made_by_all(group, [&] { return make_model(resolved); })),
      batches_(made_by_all(
          group, [&] { return config::own_batches(resolved, resolved.batch_shape(group.rank(), group.size())); })),
      engine_(*model_, run::group_for(group, resolved.backend, options.device), resolved.parallel, resolved.optimizers,
              with_targets_of(batches_.get(), options)),
      batch_(first_batch(batches_.get(), *model_, engine_.batch_shape())) {}

std::vector<ActivityTimes> Training::time_steps(Size count) {
  profile::ActivityClock clock(engine_.options().device);
  const profile::ActivityClockScope current(&clock);
  std::vector<ActivityTimes> times;
  struct Issued {
    StepResult result;
    profile::Lap lap;
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
    const profile::Lap lap = clock.lap();
    finish();
    issued = Issued{result, lap};
  }
  finish();
  return times;
}

std::vector<double> Training::step_ms(Size count) {
  std::vector<double> ms;
  for (const ActivityTimes& times : time_steps(count)) ms.push_back(sum(times));
  return ms;
}

double Training::flops() const {
  return model_->facts(engine_.batch_shape().seq).flops_per_token * static_cast<double>(tokens());
}

}  // namespace lt::bench
