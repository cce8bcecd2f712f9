// The key figures of a run.
#pragma once

#include <cstddef>
#include <string>

#include "report/data.h"

namespace lt::report {

// Model, steps and the later losses describe the whole run. Tokens, first_loss and train_s describe what it recorded,
// which begins later if it began from another run's checkpoint. Everything else describes its last segment
// (segments.h). Speeds are medians over the steady steps, but for mean_tokens_per_s, and memory is the maximum over the
// segment.
struct Summary {
  std::string model, strategy, recompute, dtype;  // "–" if the run does not record it
  double shard_size = kMissing;                   // of a hybrid run: fewer ranks than all; else kMissing
  double ranks = kMissing, steps = 0, tokens = kMissing;
  double first_step = kMissing, last_step = kMissing;  // that have rows
  double first_loss = kMissing;
  // The mean of the finite losses of the last ten steps, how many these are, and of how many steps.
  double last_loss = kMissing;
  std::size_t last_losses = 0, last_steps = 0;
  double eval_loss = kMissing, best_eval_loss = kMissing, best_eval_step = kMissing;
  double step_ms = kMissing, tokens_per_s = kMissing, mean_tokens_per_s = kMissing, tokens_per_s_per_rank = kMissing,
         mfu = kMissing;
  double memory_peak_bytes = kMissing, memory_outside_bytes = kMissing, predicted_peak_bytes = kMissing;
  double train_s = kMissing;  // sum of all steps' times
};

// `nats` for the built-in families, whose loss is the mean negative log-likelihood of a token; `other` for another
// model of a program, whose loss may be anything.
const char* loss_unit(const RunData& run, const char* nats, const char* other);

Summary summarize(const RunData& run);
// The recorded steps: "11 to 20".
std::string recorded_range(const Summary& s);

// "gpt-tiny: gpt2, 4 layers x width 128"; "gpt2, 2 layers x width 32" for a shape without a preset. If config.toml
// lacks the shape, the preset's name or else the family; "–" if it has neither.
std::string model_of(const RunData& run);

}  // namespace lt::report
