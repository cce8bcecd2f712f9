// Trains a model on generated batches and times its steps one by one.
#pragma once

#include <memory>
#include <vector>

#include "bench/result.h"
#include "libtrain/comm/group.h"
#include "libtrain/comm/world.h"
#include "libtrain/config/resolved.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/nn/module.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/tensor/batch.h"
#include "profile/activity_clock.h"

namespace lt::bench {

double sum(const ActivityTimes& times);

// Returns the result of make(). If it throws on one rank, this throws on all ranks of the group.
template <class Make>
auto made_by_all(const Group& group, Make&& make) {
  decltype(make()) made;
  collectively(group, [&] { made = make(); });
  return made;
}

// Returns the options of a step on this rank's device, whose matmuls use the table of algorithms of train.algorithms.
// All ranks must call it. Throws UsageError and DataError.
EngineOptions step_options_with_algorithms(const Resolved& resolved, const World& world);

class Training {
 public:
  // Every rank of `group` must construct it and time the same steps. Throws UsageError.
  Training(const Resolved& resolved, const Group& group, const EngineOptions& options);

  // Returns each step's milliseconds by activity. The host issues a step while a CUDA device runs the step before.
  // Throws NonFiniteError if a loss is not finite.
  std::vector<ActivityTimes> time_steps(Size count);
  // Like time_steps(), but returns each step's total milliseconds.
  std::vector<double> step_ms(Size count);

  Size tokens() const { return engine_.batch_shape().global_tokens(); }  // per step
  double flops() const;                                                  // per step

 private:
  std::unique_ptr<nn::Model> model_;
  std::unique_ptr<BatchSource> batches_;  // from the model's row; null: generated tokens
  Engine engine_;
  Batch batch_;
};

}  // namespace lt::bench
