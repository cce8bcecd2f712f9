// A model in training on made-up tokens, whose steps can be timed one by one.
#pragma once

#include <memory>
#include <vector>

#include "libtrain/nn/models.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/tensor/batch.h"
#include "libtrain/train/config.h"
#include "profile/activity_clock.h"

namespace lt::bench {

double sum(const ActivityTimes& parts);

class Training {
 public:
  // `config` is resolved. All ranks of `group` construct it, and time steps, alike. Throws UsageError.
  Training(const Config& config, const Group& group, const StepOptions& options);

  // Steps by their parts; while a CUDA device is at one the host issues the next. Throws NonFiniteError.
  std::vector<ActivityTimes> time_steps(Size count);

  Size tokens() const { return engine_.batch_shape().global_tokens(); }  // of a step
  double flops() const;                                                  // of a step

 private:
  std::unique_ptr<nn::Transformer> model_;
  Engine engine_;
  Batch batch_;
};

// The row's `shape` of steps with this resolved configuration.
std::string step_shape(const Config& config);

}  // namespace lt::bench
