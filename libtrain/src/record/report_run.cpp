// The part of a report that shows one run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "record/report_sections.h"
#include "record/report_text.h"
#include "record/svg_chart.h"

namespace lt::report {
namespace {

std::string spaced(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::vector<double> all_of(const RunData& run, double StepRow::*member) {
  std::vector<double> values;
  for (const StepRow& step : run.steps) values.push_back(step.*member);
  return values;
}

Table key_figures(const Summary& s) {
  Table t;
  const auto row = [&](const char* name, const std::string& value) {
    if (value != "–") t.rows.push_back({name, value});
  };
  const auto with_unit = [](std::string text, const char* unit) { return text == "–" ? text : text + unit; };
  row("Model", s.model);
  row("Strategy", s.strategy);
  row("Recomputation", s.recompute);
  row("Dtype", s.dtype);
  row("Ranks", whole_text(s.ranks));
  row("Steps", whole_text(s.steps));
  row("Tokens", count_text(s.tokens));
  row("Training loss at the first step", with_unit(fixed_text(s.first_loss, 4), " nats"));
  row("Training loss, mean of the last 10 steps", with_unit(fixed_text(s.last_loss, 4), " nats"));
  row("Evaluation loss, last", with_unit(fixed_text(s.eval_loss, 4), " nats"));
  row("Evaluation loss, best",
      std::isnan(s.best_eval_loss) ? "–" : fmt::format("{:.4f} nats at step {:g}", s.best_eval_loss, s.best_eval_step));
  row("Step, median", with_unit(fixed_text(s.step_ms, 1), " ms"));
  row("Tokens a second", count_text(s.tokens_per_s));
  row("Tokens a second and rank", count_text(s.tokens_per_s_per_rank));
  row("MFU", percent_text(s.mfu, 1));
  row("Peak memory, fullest rank", bytes_text(s.memory_peak_bytes));
  row("Peak memory, predicted", bytes_text(s.predicted_peak_bytes));
  row("Device memory outside the library", bytes_text(s.memory_outside_bytes));
  row("Time of all steps", duration_text(s.train_s));
  return t;
}

Figure speed_figure(const RunData& run) {
  LineChart chart{.title = "Speed", .x_label = "step", .y_label = "tokens/s", .series = {}, .from_zero = true};
  chart.series.push_back({"tokens/s, all ranks", all_of(run, &StepRow::step), all_of(run, &StepRow::tokens_per_s)});
  return {chart.title, figure(chart)};
}

Figure breakdown_figure(const RunData& run, const std::vector<std::pair<std::string, double>>& parts) {
  StackedChart chart{.title = "Where each step's time goes",
                     .x_label = "step",
                     .y_label = "ms a step (rank 0)",
                     .unit = "ms",
                     .parts = {},
                     .x = all_of(run, &StepRow::step),
                     .values = {}};
  for (const auto& [name, ms] : parts) {
    chart.parts.push_back(spaced(name));
    auto& values = chart.values.emplace_back();
    for (const StepRow& step : run.steps) {
      const auto found = std::find_if(step.breakdown_ms.begin(), step.breakdown_ms.end(),
                                      [&name = name](const auto& part) { return part.first == name; });
      values.push_back(found == step.breakdown_ms.end() || !(found->second > 0) ? 0 : found->second);
    }
  }
  return {chart.title, figure(chart)};
}

// Rows of name, value as text, and share of the total with a bar.
Table shares(const std::string& what, const std::string& unit, const std::vector<std::pair<std::string, double>>& parts,
             std::string (*text)(double)) {
  double total = 0, largest = 0;
  for (const auto& part : parts) {
    total += part.second;
    largest = std::max(largest, part.second);
  }
  Table t{.header = {what, unit, "share"}, .rows = {}};
  for (const auto& [name, value] : parts) {
    t.rows.push_back({spaced(name), text(value), percent_text(total > 0 ? value / total : 0, 1)});
    t.bars.push_back(largest > 0 ? value / largest : 0);
  }
  t.rows.push_back({"all", text(total), ""});
  t.bars.push_back(0);
  return t;
}

Table collectives(const std::vector<CommRow>& rows) {
  Table t{.header = {"collective", "calls", "sent", "busy ms", "exposed ms", "bus GB/s"}, .rows = {}};
  for (const CommRow& c : rows) {
    t.rows.push_back({spaced(c.op), fixed_text(c.calls, 1), bytes_text(c.bytes), fixed_text(c.busy_ms, 2),
                      fixed_text(c.exposed_ms, 2), fixed_text(c.busbw_gbps, 2)});
  }
  return t;
}

Table event_table(const RunData& run) {
  Table t{.header = {"event", "step", "details"}, .rows = {}, .text = true};
  for (const Event& event : run.events) {
    std::string details;
    for (const auto& [key, value] : event.fields) details += (details.empty() ? "" : ", ") + key + " " + value;
    t.rows.push_back({event.kind, std::isnan(event.step) ? "" : whole_text(event.step), details});
  }
  constexpr std::size_t kShown = 40;
  if (t.rows.size() > kShown) {
    const std::size_t left_out = t.rows.size() - kShown;
    t.rows.erase(t.rows.begin() + kShown / 2, t.rows.end() - kShown / 2);
    t.rows.insert(t.rows.begin() + kShown / 2, {"…", "", fmt::format("{} more", left_out)});
  }
  return t;
}

// About twelve steps, evenly spread, the first and the last among them.
Table progress(const RunData& run) {
  Table t{.header = {"step", "loss", "norm", "lr", "ms", "tokens/s"}, .rows = {}};
  const std::size_t n = run.steps.size(), shown = std::min<std::size_t>(n, 12);
  for (std::size_t i = 0; i < shown; ++i) {
    const StepRow& s = run.steps[shown == 1 ? 0 : i * (n - 1) / (shown - 1)];
    t.rows.push_back({whole_text(s.step), fixed_text(s.loss, 4), fixed_text(s.grad_norm, 3),
                      std::isnan(s.lr) ? "–" : fmt::format("{:.2e}", s.lr), fixed_text(s.step_ms, 1),
                      count_text(s.tokens_per_s)});
  }
  return t;
}

std::string config_as_toml(const RunData& run) {
  std::string text, section;
  for (const auto& [key, value] : run.config) {
    const std::size_t dot = key.find('.');
    const std::string here = dot == std::string::npos ? "" : key.substr(0, dot);
    if (here != section) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section = here);
    text += fmt::format("{} = {}\n", dot == std::string::npos ? key : key.substr(dot + 1), value);
  }
  return text;
}

}  // namespace

void add_run(Document& document, const RunData& run, int level) {
  const Summary summary = summarize(run);
  document.add(Heading{level, level == 1 ? document.title : run.name});
  if (run.torn)
    document.add(
        Paragraph{"The last line of metrics.jsonl was cut off, as a killed run leaves it, and does not count."});
  if (run.steps.empty()) {
    document.add(Paragraph{"No step has been recorded yet."});
  } else {
    document.add(Paragraph{bottleneck_text(run)});
  }
  document.add(key_figures(summary));
  if (std::isfinite(summary.mfu)) {
    document.add(
        Paragraph{"MFU = tokens a second × FLOPs a token / dense peak of the compute dtype, with FLOPs a token = "
                  "3 × (2 × matmul weights of all blocks + 2 × layers × T × width + 2 × width × vocab); recomputation "
                  "does not count."});
  }
  document.add(Heading{level + 1, "Training"});
  document.add(loss_figure({&run}));
  document.add(progress(run));

  const auto steady = steady_steps(run);
  const auto parts = mean_breakdown(steady);
  document.add(Heading{level + 1, "Time"});
  document.add(speed_figure(run));
  document.add(breakdown_figure(run, parts));
  if (!parts.empty()) {
    Table table = shares("part of a step", "ms, mean", parts, [](double ms) { return fixed_text(ms, 2); });
    table.colored = true;  // as in the chart above
    document.add(std::move(table));
  }
  const double slowest = mean(column(steady, &StepRow::step_ms_max));
  if (run.ranks > 1 && std::isfinite(slowest)) {
    document.add(Paragraph{fmt::format(
        "Over the ranks a step takes {} / {} / {} ms (fastest / mean / slowest rank, mean of {} steps).",
        fixed_text(mean(column(steady, &StepRow::step_ms_min)), 1),
        fixed_text(mean(column(steady, &StepRow::step_ms_mean)), 1), fixed_text(slowest, 1), steady.size())});
  }
  const auto comm = mean_comm(steady);
  if (!comm.empty()) {
    document.add(Heading{level + 1, "Collectives"});
    document.add(
        Paragraph{"A step of rank 0 on average. Busy is the time from the call to its completion, exposed what "
                  "computation waited for."});
    document.add(collectives(comm));
  }
  if (!run.ledger.empty()) {
    document.add(Heading{level + 1, "Memory"});
    document.add(Paragraph{
        fmt::format("The ledger of the fullest rank, as planned before the first step: {}. Measured peak: {}.",
                    bytes_text(run.predicted_peak_bytes), bytes_text(summary.memory_peak_bytes))});
    document.add(shares("owner", "bytes", run.ledger, bytes_text));
  }
  if (!run.samples.empty()) document.add(Heading{level + 1, "Samples"});
  for (const auto& [name, text] : run.samples) document.add(Preformatted{name, text, false});
  document.add(Heading{level + 1, "Record"});
  document.add(event_table(run));
  Table environment{.header = {}, .rows = {}, .text = true};
  for (const auto& [key, value] : run.environment) environment.rows.push_back({key, value});
  document.add(environment);
  if (!run.config.empty()) document.add(Preformatted{"Configuration", config_as_toml(run), true});
}

Figure loss_figure(const std::vector<const RunData*>& runs) {
  LineChart chart{.title = "Loss", .x_label = "step", .y_label = "nats a token", .series = {}, .from_zero = false};
  for (const RunData* run : runs) {
    Series eval{.name = runs.size() == 1 ? "evaluation" : run->name + ", evaluation", .x = {}, .y = {}, .dots = true};
    for (const Event& e : run->evals) {
      eval.x.push_back(e.step);
      eval.y.push_back(e.loss);
    }
    if (runs.size() == 1) {
      chart.series.push_back({"training", all_of(*run, &StepRow::step), all_of(*run, &StepRow::loss)});
      chart.series.push_back(eval);
    } else {
      chart.series.push_back({run->name, all_of(*run, &StepRow::step), all_of(*run, &StepRow::loss)});
    }
  }
  return {chart.title, figure(chart)};
}

}  // namespace lt::report
