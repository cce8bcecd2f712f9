// The first screen of a run: what ran, four figures, the losses, the phases of a step, and the findings.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "record/short_text.h"
#include "report/bar_chart.h"
#include "report/curves.h"
#include "report/findings.h"
#include "report/groups.h"
#include "report/live.h"
#include "report/sections.h"
#include "report/segments.h"
#include "report/text.h"

namespace lt::report {
namespace {

constexpr double kVisible = 0.0005;  // share of a step

// "CPU", the name of the GPU, or nothing if the run does not say.
std::string device_of(const RunData& run) {
  if (!on_gpu(run)) return config_text(run, "train.device") == "cpu" ? "CPU" : "";
  const std::string gpu = environment_text(run, "gpu");
  return gpu == kDash ? "GPU" : gpu;
}

std::string what_ran(const RunData& run, const Summary& s) {
  std::string text;
  const auto add = [&](const std::string& item) { text += (text.empty() ? "" : " · ") + item; };
  if (s.model != kDash) add(s.model);
  if (std::isfinite(run.parameters)) add(count_text(run.parameters) + " parameters");
  if (run.ranks > 1 && s.strategy != kDash) add(strategy_of(s));
  if (run.ranks > 0) {
    const std::string device = device_of(run);
    add(fmt::format("{:g} rank{}{}", run.ranks, run.ranks == 1 ? "" : "s", device.empty() ? "" : " on " + device));
  }
  if (s.dtype != kDash) add(s.dtype);
  const double steps = config_number(run, "train.steps");
  std::string done = whole_text(s.steps);
  if (steps >= s.steps) done += " of " + whole_text(steps);
  done += (steps >= s.steps ? steps : s.steps) == 1 ? " step" : " steps";
  if (s.first_step > 1) done += fmt::format(" ({} recorded here)", recorded_range(s));
  add(done);
  add(state_of(run));
  return text;
}

Tiles::Tile loss_tile(const RunData& run, const Summary& s) {
  const char* unit = loss_unit(run, " nats", "");
  Tiles::Tile tile{
      "Loss, mean of " + recorder::counted(static_cast<Size>(s.last_losses), "step"), fixed_text(s.last_loss, 4), {}};
  if (std::isfinite(s.last_loss)) tile.value += unit;
  if (std::isfinite(s.eval_loss)) {
    tile.note = fmt::format("evaluation {:.4f}{}", s.eval_loss,
                            std::isnan(run.evals.back().step) ? "" : " at step " + whole_text(run.evals.back().step));
  } else if (std::isfinite(s.first_loss) && s.last_step > s.first_step) {
    tile.note = fmt::format("{:.4f} at step {}", s.first_loss, whole_text(s.first_step));
  }
  return tile;
}

Tiles::Tile speed_tile(const Summary& s) {
  Tiles::Tile tile{"Tokens per second", count_text(s.tokens_per_s), {}};
  if (std::isfinite(s.step_ms)) tile.note = "median, " + ms_text(s.step_ms) + " ms per step";
  if (s.is_uneven()) {
    tile.note += fmt::format("{}mean {}", tile.note.empty() ? "" : "; ", count_text(s.mean_tokens_per_s));
  }
  return tile;
}

// How well the device is used: MFU, or else FLOP/s, or else the share of computation.
Tiles::Tile use_tile(const RunData& run, const Summary& s) {
  const double speed = run.flops_per_token * s.tokens_per_s_per_rank;
  if (std::isfinite(s.mfu))
    return {"MFU", percent_text(s.mfu, 1), speed > 0 ? flops_text(speed) + " per rank" : std::string()};
  if (speed > 0) return {"Computation per rank", flops_text(speed), "no MFU: the peak is unknown"};
  const Costs costs = costs_of(run);
  if (!(costs.step_ms > 0)) return {"Computation", kDash, {}};
  return {"Computation", percent_text(costs.compute() / costs.step_ms), "of a step"};
}

Tiles::Tile memory_tile(const RunData& run, const Summary& s) {
  Tiles::Tile tile{"Peak memory, fullest rank", bytes_text(s.memory_peak_bytes), {}};
  if (const Headroom room = headroom_of(run); std::isfinite(room.limit_bytes)) {
    tile.note = fmt::format("process: {} of {}", bytes_text(room.used_bytes), bytes_text(room.limit_bytes));
  } else if (std::isfinite(s.predicted_peak_bytes)) {
    tile.note = bytes_text(s.predicted_peak_bytes) + " planned";
  }
  return tile;
}

Figure phases_figure(const RunData& run) {
  const auto phases = mean_activities(steady_steps(run));
  double total = 0;
  for (const auto& phase : phases) total += phase.second;
  ShareBar bar{.title = fmt::format("A step takes {} ms on average, bound by {}", ms_text(total), bottleneck(run)),
               .parts = {}};
  std::string numbers;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const auto& [name, ms] = phases[i];
    const double share = ms / total;
    if (!(share > kVisible)) continue;
    const std::string text =
        fmt::format("{} {} ms ({})", spaced(name), ms_text(ms), percent_text(share, share < 0.0995 ? 1 : 0));
    numbers += (numbers.empty() ? "" : ", ") + text;
    bar.parts.push_back({text, ms, i});
  }
  return {bar.title, figure(bar), numbers};
}

void add_findings(Document& document, const RunData& run, int level) {
  List list{.items = {}, .folded = true};
  for (const Finding& finding : findings(run))
    list.items.push_back({finding.headline, finding.text, finding.cost_text()});
  if (list.items.empty()) return;
  document.add(Heading{level, "Findings"});
  document.add(list);
  const std::size_t steady = steady_steps(run).size(), left_out = measured_steps(run).size() - steady;
  const auto steps = [](std::size_t count, const char* noun) {
    return recorder::counted(static_cast<Size>(count), noun);
  };
  document.add(
      Paragraph{.text = fmt::format("Times are means over ranks and over {}, {}; tokens per second are medians.",
                                    steps(steady, "step"),
                                    left_out > 0 ? "without " + steps(left_out, "warm-up step")
                                                 : std::string("including the warm-up: too few to judge speed")),
                .small = true});
}

}  // namespace

void add_first_screen(Document& document, const RunData& run, const Summary& summary, int level) {
  if (!run.steps.empty()) {
    document.add(Paragraph{what_ran(run, summary)});
    add_status(document, run, summary);
  } else if (summary.steps > 0) {
    document.add(Paragraph{
        fmt::format("The rows of all {} are lost.", recorder::counted(static_cast<Size>(summary.steps), "step"))});
  } else {
    document.add(Paragraph{"No step has been recorded yet."});
  }
  if (run.torn)
    document.add(Paragraph{"The last line of metrics.jsonl is incomplete, as a killed run leaves it. It was ignored."});
  for (const std::string& file : run.unreadable)
    document.add(Paragraph{file + " of the run cannot be read or is damaged, and was ignored."});
  for (const std::string& note : {restarts_note(run), segments_note(run)}) {
    if (!note.empty()) document.add(Paragraph{note});
  }
  if (run.steps.empty()) return;
  document.add(
      Tiles{{loss_tile(run, summary), speed_tile(summary), use_tile(run, summary), memory_tile(run, summary)}});
  document.add(loss_figure(run, level == 1));
  document.add(phases_figure(run));
  add_findings(document, run, level + 1);
}

}  // namespace lt::report
