// The verdict on a run, and its findings sorted by cost.
#include "report/findings.h"

#include <algorithm>
#include <cmath>

#include "record/short_text.h"
#include "report/evidence.h"

namespace lt::report {
namespace {

void add_data(Findings& findings, const Evidence& e) {
  if (e.share(e.costs.data) < 0.03) return;
  findings.push_back({"data", e.share(e.costs.data), "Waiting for data",
                      fmt::format("Waiting for the batch takes {}; data in Time). {} Threads read token files ahead, "
                                  "in a shuffled order. Either the "
                                  "file system gives less than the run needs: keep data.train on a local disk, and "
                                  "small enough for the page cache. "
                                  "Or all processors are busy: leave one of them free for these threads.",
                                  e.of_step(e.costs.data), e.without(e.costs.data))});
}

void add_checkpoint(Findings& findings, const Evidence& e) {
  if (e.share(e.costs.checkpoint) < 0.02) return;
  const double first = measured_steps(e.run).front()->step;
  double saves = 0, seconds = 0;
  for (const Event& event : e.run.events) {
    if (event.kind != "checkpoint" || std::isnan(event.seconds) || event.step < first) continue;
    const double stall = number_of(event_field(event, "stall_seconds"));
    ++saves;
    seconds += std::isnan(stall) ? event.seconds : stall;
  }
  std::string text = fmt::format("Saving takes {}; checkpoint in Time).", e.of_step(e.costs.checkpoint));
  if (saves > 0) {
    text += fmt::format(
        " {:g} checkpoints held training up for {:.2f} s each (events), and {}. Saving half as often "
        "costs half.",
        saves, seconds / saves, e.save_interval());
  }
  findings.push_back(
      {"checkpoint", e.share(e.costs.checkpoint), "Checkpoints", text + " " + e.without(e.costs.checkpoint)});
}

// Time outside the steps, for a run that finished in one go.
void add_outside(Findings& findings, const Evidence& e) {
  double seconds = kMissing, last_save = 0;
  int starts = 0;
  for (const Event& event : e.run.events) {
    if (event.kind == "start") ++starts;
    if (event.kind == "end") seconds = event.seconds;
    if (event.kind == "checkpoint" && event.step == e.summary.steps) last_save = event.seconds;
  }
  const double outside = seconds - e.summary.train_s - last_save;
  if (starts != 1 || !(outside > 0.1 * seconds) || e.run.evals.empty()) return;
  findings.push_back(
      {"outside", outside / seconds, "Evaluation and samples between the steps",
       fmt::format(
           "The run took {:.1f} s (event end), of which all steps took {:.1f} s. The other {:.1f} s, {} of the run, "
           "went to {}{}. Evaluate less often, or on fewer tokens ({}, {}).",
           seconds, e.summary.train_s, outside, percent_text(outside / seconds),
           recorder::counted(static_cast<Size>(e.run.evals.size()), "evaluation"),
           e.run.samples.empty() ? "" : " and samples", e.setting("train.eval_every"),
           e.setting("train.eval_tokens"))});
}

struct Cost {
  const char* name;
  const char* components;  // in brackets
  double ms;

  std::string full_name() const { return std::string(name) + components; }
};

// The largest first. The straggler's share is not in gather and reduce, so it counts once.
std::vector<Cost> sorted_costs(const Costs& c) {
  std::vector<Cost> costs = {
      {"computation", c.recompute > 0 ? " (forward, backward and recomputation)" : " (forward and backward)",
       c.compute()},
      {"waiting for transfers", " (gather and reduce)", c.communication()},
      {"waiting for the slowest rank", "", c.straggler},
      {"waiting for data", "", c.data},
      {"the optimizer", "", c.optimizer},
      {"saving checkpoints", "", c.checkpoint},
      {"other", "", c.other},
  };
  std::stable_sort(costs.begin(), costs.end(), [](const Cost& a, const Cost& b) { return a.ms > b.ms; });
  return costs;
}

}  // namespace

std::string Finding::cost_text() const {
  if (!(cost > 0)) return {};
  return percent_text(cost) + (kind == "outside" || kind == "restarts" ? " of the run's time" : " of a step");
}

std::string bottleneck(const RunData& run) {
  const Costs c = costs_of(run);
  if (!(c.step_ms > 0)) return {};
  const Cost largest = sorted_costs(c).front();
  return fmt::format("{} ({})", largest.name, percent_text(largest.ms / c.step_ms));
}

std::string verdict(const RunData& run) {
  const Costs c = costs_of(run);
  if (!(c.step_ms > 0)) return "The metrics have no breakdown of a step, so the report cannot say where its time goes.";
  const std::vector<Cost> costs = sorted_costs(c);
  const double total = c.step_ms;
  std::string text = fmt::format("Bound by {}: {} of {} ms of a step on average ({}).", costs[0].full_name(),
                                 ms_text(costs[0].ms), ms_text(total), percent_text(costs[0].ms / total));
  std::string rest;
  double unnamed = 0;
  for (std::size_t i = 1; i < costs.size(); ++i) {
    if (costs[i].ms < 0.01 * total) {
      unnamed += costs[i].ms;
      continue;
    }
    rest += fmt::format("{}{} {} ms ({})", rest.empty() ? "" : ", ", costs[i].full_name(), ms_text(costs[i].ms),
                        percent_text(costs[i].ms / total));
  }
  if (unnamed >= 0.005 * total) {
    rest += fmt::format("{}everything else {} ms ({})", rest.empty() ? "" : ", ", ms_text(unnamed),
                        percent_text(unnamed / total));
  }
  if (!rest.empty()) text += " Then: " + rest + ".";
  if (run.ranks > 1 && c.communication() + c.straggler < 0.01 * total) {
    text += " Communication is hidden behind computation: less than 1% of a step waits for it.";
  }
  return text;
}

std::vector<Finding> findings(const RunData& run) {
  const Evidence e(run);
  Findings all;
  if (!(e.costs.step_ms > 0)) return all;
  add_data(all, e);
  add_communication(all, e);
  add_computation(all, e);
  add_checkpoint(all, e);
  add_outside(all, e);
  add_restarts(all, e);
  std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) { return a.cost > b.cost; });
  return all;
}

}  // namespace lt::report
