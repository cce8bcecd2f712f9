// Computes the key figures of a run.
#include "report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <variant>

#include "libtrain/nn/transformer_spec.h"
#include "nn/model_family.h"
#include "nn/spec_fields.h"
#include "report/segments.h"

namespace lt::report {
namespace {

double largest(const std::vector<const StepRow*>& steps, double StepRow::*member) {
  double result = kMissing;
  for (const StepRow* step : steps) result = std::fmax(result, step->*member);
  return result;
}

// Reads one field from config.toml. Returns false if a required number is missing or out of range.
bool read_field(const RunData& run, const nn::SpecField& field, nn::TransformerSpec& spec) {
  const std::string key = fmt::format("model.{}", field.name), text = config_text(run, key);
  const double number = config_number(run, key);
  return std::visit(
      [&](auto member) {
        auto& value = spec.*member;
        using T = std::remove_reference_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          if (text != "–") value = text;
        } else if constexpr (std::is_same_v<T, std::optional<bool>>) {
          if (text == "true" || text == "false") value = text == "true";
        } else if constexpr (std::is_same_v<T, Size>) {
          if (!(number > 0 && number < 1e9)) return field.optional;
          value = static_cast<T>(number);
        } else if constexpr (std::is_floating_point_v<T>) {
          if (number > 0) value = static_cast<T>(number);
        }
        return true;
      },
      field.member);
}

}  // namespace

std::string model_of(const RunData& run) {
  nn::TransformerSpec spec{.family = ""};
  bool whole = true;  // all numbers of the shape are known
  for (const nn::SpecField& field : nn::spec_fields()) whole = read_field(run, field, spec) && whole;
  if (!whole || spec.family.empty()) {
    if (const std::string preset = config_text(run, "model.preset"); preset != "–") return preset;
    return run.model.empty() ? config_text(run, "model.family") : run.model;
  }
  const std::string shape = fmt::format("{}, {} layers x width {}", spec.family, spec.layers, spec.width);
  const nn::Preset* preset = nn::preset_of(spec);
  return preset == nullptr ? shape : preset->name + ": " + shape;
}

const char* loss_unit(const RunData& run, const char* nats, const char* other) {
  if (run.config.empty() || run.config.contains("model.preset")) return nats;
  const std::string name = run.model.substr(0, run.model.find(' '));  // a program's own model may be a built-in one
  const bool is_transformer =
      std::ranges::any_of(nn::families(), [&](const nn::ModelFamily* family) { return family->name == name; });
  return is_transformer ? nats : other;
}

std::string recorded_range(const Summary& s) { return range_text({s.first_step, s.last_step, {}}); }

Summary summarize(const RunData& run) {
  Summary s;
  s.model = model_of(run);
  s.strategy = measured_setting(run, "strategy", "parallel.strategy");
  s.recompute = measured_setting(run, "recompute", "parallel.recompute");
  s.dtype = measured_setting(run, "dtype", "train.dtype");
  s.ranks = run.ranks;
  const double shard_size = number_of(measured_setting(run, "shard_size", "parallel.shard_size"));
  if (s.strategy.starts_with("zero") && shard_size > 0 && shard_size < s.ranks) {
    s.shard_size = shard_size;
  }
  s.predicted_peak_bytes = run.predicted_peak_bytes;
  if (!run.evals.empty()) s.eval_loss = run.evals.back().loss;
  for (const Event& eval : run.evals) {
    if (std::isnan(eval.loss) || eval.loss >= s.best_eval_loss) continue;
    s.best_eval_loss = eval.loss;
    s.best_eval_step = eval.step;
  }
  s.steps = steps_done(run);
  if (run.steps.empty()) return s;
  const auto steady = steady_steps(run), measured = measured_steps(run);
  const auto per_step = [&](double StepRow::*member) { return median(column(steady, member)); };
  s.first_step = run.steps.front().step, s.last_step = run.steps.back().step;
  s.first_loss = run.steps.front().loss;
  std::vector<double> last, times, tokens;
  for (const StepRow& step : run.steps) {
    times.push_back(step.step_ms);
    tokens.push_back(step.tokens);
    if (&run.steps.back() - &step >= 10) continue;
    ++s.last_steps;
    if (std::isfinite(step.loss)) last.push_back(step.loss);
  }
  s.last_loss = mean(last), s.last_losses = last.size();
  s.tokens = mean(tokens) * static_cast<double>(tokens.size());
  s.train_s = mean(times) * static_cast<double>(times.size()) / 1e3;
  s.step_ms = per_step(&StepRow::step_ms);
  s.tokens_per_s = per_step(&StepRow::tokens_per_s);
  s.mean_tokens_per_s = 1e3 * mean(column(steady, &StepRow::tokens)) / mean(column(steady, &StepRow::step_ms));
  s.tokens_per_s_per_rank = per_step(&StepRow::tokens_per_s_per_rank);
  s.mfu = per_step(&StepRow::mfu);
  s.memory_peak_bytes = largest(measured, &StepRow::memory_peak_bytes);
  s.memory_outside_bytes = largest(measured, &StepRow::memory_outside_bytes);
  return s;
}

}  // namespace lt::report
