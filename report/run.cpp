// Shows one run: a summary sentence, the bottleneck, and the sections.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "record/record.h"
#include "record/short_text.h"
#include "report/findings.h"
#include "report/groups.h"
#include "report/saved.h"
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

// Whether the median step tells little of the speed: it may have changed, or some steps take very long.
bool is_uneven(const Summary& s) { return std::abs(s.mean_tokens_per_s / s.tokens_per_s - 1) > 0.1; }

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
  if (is_uneven(s)) row("Tokens per second, mean", count_text(s.mean_tokens_per_s));
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

// One sentence for a reader who does not know the run.
std::string subject(const RunData& run, const Summary& s) {
  std::string text = s.model == "–" ? "A model" : s.model;
  if (std::isfinite(run.parameters)) text += fmt::format(" ({} parameters)", count_text(run.parameters));
  text += fmt::format(", trained for {} step{}", whole_text(s.steps), s.steps == 1 ? "" : "s");
  if (s.first_step > 1)
    text += fmt::format(" ({} {} recorded here)", recorded_range(s), s.first_step == s.last_step ? "is" : "are");
  if (has_segments(run)) text += fmt::format(", the last {} of them", measured_steps(run).size());
  if (run.ranks > 0) text += fmt::format(" on {:g} rank{}", run.ranks, run.ranks == 1 ? "" : "s");
  if (run.ranks > 1 && s.strategy != "–") text += " with " + strategy_of(s);
  if (std::isfinite(s.tokens_per_s)) {
    text +=
        fmt::format(": {} tokens per second, {} ms per step (medians)", count_text(s.tokens_per_s), ms_text(s.step_ms));
    if (is_uneven(s)) text += fmt::format("; {} tokens per second on average", count_text(s.mean_tokens_per_s));
  }
  return text + ".";
}

// How a run that is not at its end goes on from its checkpoint of step `saved`, or where it begins again if that is 0.
// Empty if that is unknown: a killed run may have left newer copies in memory, of which neither record nor disk says
// anything.
Paragraph how_to_go_on(const RunData& run, double saved, bool is_killed) {
  std::string command = environment_text(run, "command");
  const std::string resume = config_text(run, "checkpoint.resume");
  if (command == "–" || resume == "–") return {};
  const bool has_copies = is_killed && config_number(run, "checkpoint.memory_every") > 0;
  if (saved == 0 && has_copies) return {};
  const bool as_before = resume == "auto";
  // The last value of a key counts. A program with a trainer of its own has options of its own.
  if (!as_before && environment_text(run, "command_takes_options") == "true") command += " --checkpoint.resume=auto";
  const std::string there = saved > 0                ? "goes on from step " + whole_text(saved)
                            : run.begun_from.empty() ? "begins again at step 1"
                                                     : "begins again from " + run.begun_from;
  std::string where;
  if (const std::string folder = environment_text(run, "working_folder"); folder != "–" && !folder.empty())
    where += ", in " + folder;
  if (run.ranks > 0) where += fmt::format(", on {:g} rank{}", run.ranks, run.ranks == 1 ? "" : "s");
  if (!where.empty()) where += ",";
  return {fmt::format("Started again {}{} it {}{}:", as_before ? "as before" : "with checkpoint.resume=auto", where,
                      there, has_copies ? ", or from a newer copy in memory of the hosts" : ""),
          command};
}

// Steps without an update.
struct Skips {
  int count = 0;
  std::string steps;
  std::set<std::string> reasons;

  void add(const Event& event) {
    steps += (count++ == 0 ? "" : ", ") + whole_text(event.step);
    reasons.insert(event_field(event, "reason"));
  }
  // In words, where there are any.
  std::string text(const char* why) const {
    if (count == 0) return "";
    return fmt::format("{} in {}, so the update was skipped: {}.", why, recorder::counted(count, "step"),
                       count > 10 ? "see Record" : steps);
  }
};

const char* what_was_not_finite(const Skips& skips) {
  const auto all_are = [&](const char* reason) { return skips.reasons == std::set<std::string>{reason}; };
  return all_are("loss not finite")            ? "The loss was not finite"
         : all_are("gradient norm not finite") ? "The gradient norm was not finite"
                                               : "Loss or gradient was not finite";
}

// Says whether the run finished, which updates were skipped, how a run that is not at its end goes on, and its error.
void add_status(Document& document, const RunData& run, const Summary& s) {
  Skips not_finite, without_targets;
  for (const Event& event : run.events) {
    if (event.kind != "skip") continue;
    (event_field(event, "reason") == recorder::kNoTargetCounts ? without_targets : not_finite).add(event);
  }
  const auto [saved, is_on_disk] = newest_saved(run);
  const std::string reason = end_of(run);
  const bool lacks_end = reason == kNotFinite || (reason.empty() && !run.starts.empty());
  const double steps = config_number(run, "train.steps");
  const bool short_of = steps > s.steps && reason != "steps";
  const std::string count = whole_text(s.steps) + (short_of ? " of " + whole_text(steps) : "") + " steps";
  std::string text;
  if (reason == kNotFinite) {
    text = fmt::format("The run stopped after {}: loss or gradient was not finite.", count);
  } else if (lacks_end) {
    text = fmt::format(
        "The record ends after {} without an end event: the run is still going on, was killed, or failed.", count);
  } else if (!reason.empty() && short_of) {
    if (reason.starts_with(kSignal)) {
      text = fmt::format("The run was stopped after {}, by {}; {}.", count, reason.substr(kSignal.size()),
                         saved >= s.steps ? "its state was saved"
                         : saved > 0      ? fmt::format("its {} checkpoint is that of step {}",
                                                   is_on_disk ? "newest" : "last recorded", whole_text(saved))
                         : is_on_disk     ? "it has no checkpoint"
                                          : "no checkpoint of it is recorded");
    } else {
      text = fmt::format("The run ended after {}{}.", count,
                         reason == "max_minutes" ? ", at the limit of train.max_minutes"
                         : reason == "program"   ? ", because the program stopped it"
                                                 : "");
    }
  }
  const bool would_repeat = reason == kNotFinite && saved == 0;  // the same steps, up to the one that stopped it
  const Paragraph go_on = text.empty() || would_repeat ? Paragraph{} : how_to_go_on(run, saved, reason.empty());
  const auto add = [&](const std::string& sentence) {
    text += (text.empty() || sentence.empty() ? "" : " ") + sentence;
  };
  if (reason != kNotFinite || not_finite.count > 1) add(not_finite.text(what_was_not_finite(not_finite)));
  add(without_targets.text("No target counted"));
  add(go_on.text);
  if (!text.empty()) document.add(Paragraph{text, go_on.code});
  if (lacks_end && !run.last_error.empty()) document.add(Paragraph{"Its log ends with: " + run.last_error});
}

}  // namespace

void add_findings(Document& document, const RunData& run, int level) {
  document.add(Heading{level, "What bounds this run, and what would be faster"});
  document.add(Paragraph{verdict(run)});
  List list;
  for (const Finding& finding : findings(run)) list.items.push_back({finding.headline, finding.text});
  if (document.add(list)) {
    const std::size_t steady = steady_steps(run).size(), first = measured_steps(run).size() - steady;
    document.add(Paragraph{fmt::format(
        "Times are means over ranks and over {} steps, {}. They come from metrics.jsonl, config.toml and env.json of "
        "the run. Tokens per second are medians of the same steps.",
        steady,
        first > 0 ? fmt::format("without {}, the warm-up", first)
                  : std::string("including the warm-up: too few to judge speed"))});
  }
}

void add_run(Document& document, const RunData& run, int level) {
  const Summary summary = summarize(run);
  document.add(Heading{level, level == 1 ? document.title : run.name});
  if (run.torn)
    document.add(Paragraph{"The last line of metrics.jsonl is incomplete, as a killed run leaves it. It was ignored."});
  for (const std::string& file : run.unreadable) {
    document.add(Paragraph{file + " of the run cannot be read or is damaged, and was ignored."});
  }
  if (run.steps.empty()) {
    document.add(Paragraph{summary.steps > 0 ? fmt::format("The rows of all {} are lost.",
                                                           recorder::counted(static_cast<Size>(summary.steps), "step"))
                                             : "No step has been recorded yet."});
  } else {
    document.add(Paragraph{subject(run, summary)});
    add_status(document, run, summary);
    add_segments(document, run);
    add_findings(document, run, level + 1);
    document.add(Heading{level + 1, "Key figures"});
  }
  document.add(key_figures(run, summary));
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
