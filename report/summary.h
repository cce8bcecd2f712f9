// The key figures of a run.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>

#include "report/data.h"

namespace lt::report {

// Model, steps and all losses but the first describe the whole run. Tokens, first_loss and train_s describe the
// recorded steps: a run that began from another run's checkpoint does not record the earlier ones. All other fields
// describe the last segment (segments.h). Speeds are medians over its steady steps, except mean_tokens_per_s. Memory is
// the maximum over the segment.
struct Summary {
  std::string model, strategy, recompute, dtype;  // "–" if the run does not record it
  double shard_size = kMissing;                   // ranks that share one set of shards, if not all; else kMissing
  double ranks = kMissing, steps = 0, tokens = kMissing;
  double first_step = kMissing, last_step = kMissing;  // of the first and the last row
  double first_loss = kMissing;
  // The mean of the finite losses of the last ten rows, the number of these losses, and the number of these rows.
  double last_loss = kMissing;
  std::size_t last_losses = 0, last_steps = 0;
  double eval_loss = kMissing, best_eval_loss = kMissing, best_eval_step = kMissing;
  double step_ms = kMissing, tokens_per_s = kMissing, mean_tokens_per_s = kMissing, tokens_per_s_per_rank = kMissing,
         mfu = kMissing;
  double memory_peak_bytes = kMissing, memory_outside_bytes = kMissing, predicted_peak_bytes = kMissing;
  double train_s = kMissing;  // seconds; sum of all steps' times

  // True if mean and median speed differ by more than a tenth: the speed changed, or some steps take very long.
  bool is_uneven() const { return std::abs(mean_tokens_per_s / tokens_per_s - 1) > 0.1; }
};

// Returns `nats` for the built-in families, whose loss is the mean negative log-likelihood of a token, and `other` for
// a program's own model, whose loss may be anything.
const char* loss_unit(const RunData& run, const char* nats, const char* other);

Summary summarize(const RunData& run);
// The recorded steps: "11 to 20".
std::string recorded_range(const Summary& s);

// "gpt-tiny: gpt2, 4 layers x width 128"; "gpt2, 2 layers x width 32" for a shape without a preset. If config.toml
// lacks the shape: the preset's name, or else the program's name for the model, or else the family; "–" without any.
std::string model_of(const RunData& run);

}  // namespace lt::report
