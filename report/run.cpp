// Shows one run: its first screen, key figures, and the sections.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "record/short_text.h"
#include "report/sections.h"
#include "report/segments.h"
#include "report/text.h"

namespace lt::report {
namespace {

// The number of failed saves, and the reason of the last one.
std::string failed_saves(const RunData& run) {
  Size count = 0;
  std::string last = "–";
  for (const Event& event : run.events) {
    if (event.kind != "checkpoint_failed") continue;
    last = fmt::format("{}, the last at step {}: {}", ++count, whole_text(event.step), event_field(event, "error"));
  }
  return last;
}

Table key_figures(const RunData& run, const Summary& s) {
  Table t;
  const auto row = [&](const std::string& name, const std::string& value) {
    if (value != "–") t.rows.push_back({name, value});
  };
  const auto with_unit = [](std::string text, const char* unit) { return text == "–" ? text : text + unit; };
  const char* unit = loss_unit(run, " nats", "");
  const bool in_part = s.first_step > 1;  // the run began from the checkpoint of another
  const double unrecorded = s.steps - s.first_step + 1 - static_cast<double>(run.steps.size());
  row("Model", s.model);
  row("Steps", whole_text(s.steps));
  if (in_part) row("Steps recorded here", recorded_range(s));
  if (unrecorded > 0) row("Steps whose rows are lost, left out of tokens, losses and time", whole_text(unrecorded));
  if (has_segments(run)) row("Steps that speed and memory cover", measured_range(run));
  row("Strategy", s.strategy);
  row("Recomputation", s.recompute);
  row("Dtype", s.dtype);
  row("Ranks", whole_text(s.ranks));
  row(in_part ? "Tokens of these steps" : "Tokens", count_text(s.tokens));
  row("Training loss at " + (in_part ? "step " + whole_text(s.first_step) : "the first step"),
      with_unit(fixed_text(s.first_loss, 4), unit));
  const std::string finite = s.last_losses < s.last_steps ? fmt::format("the {} finite of ", s.last_losses) : "";
  row(fmt::format("Training loss, mean of {}the last {}", finite,
                  recorder::counted(static_cast<Size>(s.last_steps), "step")),
      with_unit(fixed_text(s.last_loss, 4), unit));
  row("Evaluation loss, last", with_unit(fixed_text(s.eval_loss, 4), unit));
  row("Evaluation loss, best", std::isnan(s.best_eval_loss) ? "–"
                                                            : fmt::format("{:.4f}{} at step {}", s.best_eval_loss, unit,
                                                                          whole_text(s.best_eval_step)));
  row("Step, median", with_unit(ms_text(s.step_ms), " ms"));
  row("Tokens per second, median", count_text(s.tokens_per_s));
  if (s.is_uneven()) row("Tokens per second, mean", count_text(s.mean_tokens_per_s));
  if (const double lost_s = seconds_of_restarts(run); lost_s > 0) {
    row("Tokens per second, with restarts and repeated steps", count_text(s.tokens / (s.train_s + lost_s)));
  }
  row("Tokens per second and rank, median", count_text(s.tokens_per_s_per_rank));
  row("MFU", percent_text(s.mfu, 1));
  row("Peak memory of tensors, fullest rank", bytes_text(s.memory_peak_bytes));
  row("Peak memory of tensors, predicted", bytes_text(s.predicted_peak_bytes));
  row(on_gpu(run) ? "Device memory of others" : "Memory of the process beside tensors",
      bytes_text(s.memory_outside_bytes));
  row("Saves that failed", failed_saves(run));
  row(in_part ? "Time of these steps" : "Time of all steps",
      s.train_s < 100 ? with_unit(fixed_text(s.train_s, s.train_s < 1 ? 3 : 1), " s") : duration_text(s.train_s));
  return t;
}

}  // namespace

void add_run(Document& document, const RunData& run, int level) {
  const Summary summary = summarize(run);
  document.add(Heading{level, level == 1 ? document.title : run.name});
  add_first_screen(document, run, summary, level);
  if (level == 1) document.add(Contents{});
  if (!run.steps.empty()) document.add(Heading{level + 1, "Key figures"});
  document.add(key_figures(run, summary));
  document.add(segments_table(run));
  if (std::isfinite(summary.mfu)) {
    document.add(Paragraph{
        "MFU = tokens per second × FLOPs per token / dense peak of the compute dtype, with FLOPs per token = "
        "3 × (2 × matmul weights of all blocks + 4 × layers × heads × head_dim × K + 2 × width × vocab). K "
        "is the mean number of keys that a query sees: T / 2, or w × (1 − w / 2T) with model.window=w. "
        "Recomputation does not count. Frozen weights have no gradient, and count twice; blocks before the first "
        "trained parameter have no backward pass."});
  }
  add_training(document, run, level + 1);
  add_time(document, run, level + 1);
  add_restarts(document, run, level + 1);
  add_ranks(document, run, level + 1);
  add_collectives(document, run, level + 1);
  add_memory(document, run, level + 1);
  add_record(document, run, level + 1);
}

}  // namespace lt::report
