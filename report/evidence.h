// The numbers of a run from which its findings are derived, computed once.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "io/shell_word.h"
#include "report/findings.h"
#include "report/summary.h"
#include "report/text.h"

namespace lt::report {

struct Evidence {
  explicit Evidence(const RunData& run)
      : run(run),
        steady(steady_steps(run)),
        costs(costs_of(run)),
        headroom(headroom_of(run)),
        summary(summarize(run)),
        comm(mean_comm(steady)) {}

  double share(double ms) const { return costs.step_ms > 0 ? ms / costs.step_ms : 0; }
  // "30.0 of 100.0 ms per step (30%"; the caller adds the description and closes the bracket.
  std::string of_step(double ms) const {
    return fmt::format("{} of {} ms per step ({}", ms_text(ms), ms_text(costs.step_ms), percent_text(share(ms)));
  }
  // A sentence with the gain in tokens per second if a step took `ms` milliseconds less.
  std::string without(double ms) const {
    return fmt::format("Without this there would be at most {} more tokens per second.",
                       percent_text(costs.step_ms / (costs.step_ms - ms) - 1));
  }
  // "a rank uses 9.30 GiB of 23.5 GiB, its share of the host's memory".
  std::string free_memory() const {
    return fmt::format("a rank uses {} of {}, its share of the host's memory", bytes_text(headroom.used_bytes),
                       bytes_text(headroom.limit_bytes));
  }
  // " ltrain plan --config RUN/config.toml --ranks 2 --train.dtype=bf16 says how much memory that takes."
  std::string plan_with(const std::string& setting) const {
    const std::string program = planning_program(run);
    if (run.config.empty() || !(run.ranks > 0) || program.empty()) return {};
    return fmt::format(" {} plan --config {} --ranks {} --{} says how much memory that takes.", program,
                       io::shell_word(run.directory + "/config.toml"), whole_text(run.ranks), setting);
  }
  bool has_free_memory(double share) const { return headroom.free_share() > share; }  // false if unknown
  std::string setting(const char* key) const { return fmt::format("{} is {}", key, config_text(run, key)); }

  // "checkpoint.every is 100".
  std::string save_interval() const {
    const bool timed = config_number(run, "checkpoint.every_minutes") > 0;
    const bool counted = config_number(run, "checkpoint.every") > 0 || !timed;
    return (counted ? setting("checkpoint.every") : "") + (counted && timed ? " and " : "") +
           (timed ? setting("checkpoint.every_minutes") : "");
  }

  const RunData& run;
  const std::vector<const StepRow*> steady;
  const Costs costs;
  const Headroom headroom;
  const Summary summary;
  const std::vector<CommRow> comm;
};

using Findings = std::vector<Finding>;

// Downtime, and repeated steps.
void add_restarts(Findings& findings, const Evidence& e);
// Waiting for other ranks: gather, reduce, straggler.
void add_communication(Findings& findings, const Evidence& e);
// A rank's own work: computation, recomputation, optimizer, threads, micro-batch size.
void add_computation(Findings& findings, const Evidence& e);

}  // namespace lt::report
