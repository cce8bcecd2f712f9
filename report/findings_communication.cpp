// Findings about waits for other ranks: transfers that no computation hides, and late ranks.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string_view>
#include <vector>

#include "report/evidence.h"

namespace lt::report {
namespace {

// A wait of at least this share of a step is worth a change.
constexpr double kExposed = 0.03;
constexpr double kGathered = 0.015;  // if another strategy costs only memory

// Describes the collectives of these kinds that send anything, the longest exposed first: "In each step all_gather
// sends 3.15 MiB in 12 calls, which are in flight for 40.6 ms: 0.08 GB/s".
std::string collectives_text(const Evidence& e, const std::vector<std::string_view>& ops) {
  std::vector<CommRow> rows;
  std::ranges::copy_if(e.comm, std::back_inserter(rows), [&](const CommRow& c) {
    return std::ranges::find(ops, c.op) != ops.end() && c.bytes > 0 && std::isfinite(c.busbw_gbps);
  });
  std::ranges::stable_sort(rows, std::greater(), &CommRow::exposed_ms);
  std::string text;
  for (const CommRow& c : rows) {
    text += fmt::format("{} {} sends {} in {:g} calls, which are in flight for {} ms: {} GB/s",
                        text.empty() ? " In each step" : ";", c.op, bytes_text(c.bytes), std::round(c.calls * 10) / 10,
                        ms_text(c.busy_ms),
                        c.busbw_gbps < 99.5 ? fmt::format("{:.2g}", c.busbw_gbps) : whole_text(c.busbw_gbps));
  }
  return text.empty() ? text : text + ".";
}

// What parallel.reduce_dtype=bf16 saves. The sums over replicas return as f32.
std::string narrower_reduction(const Evidence& e) {
  if (std::isnan(e.summary.shard_size)) return "halves what reduce_scatter sends";
  return std::string("saves a quarter of what all_reduce sends, because its sums travel as f32") +
         (e.summary.shard_size > 1 ? ", and half of what reduce_scatter sends" : "");
}

// Suggests ways to send less per token that the run does not use yet.
std::string fewer_transfers(const Evidence& e) {
  const bool zero3 = e.summary.strategy == "zero3";
  const double accum = config_number(e.run, "train.accum");
  if (e.has_free_memory(0.3)) {
    return fmt::format(" A larger micro-batch computes more per transfer: {}, and {}.", e.setting("train.micro_batch"),
                       e.free_memory());
  }
  if (zero3 && accum > 1) {
    return fmt::format(
        " {}, and zero3 gathers and reduces in each micro-batch, so fewer and larger ones would wait less.",
        e.setting("train.accum"));
  }
  if (zero3) return {};
  return fmt::format(
      " With more micro-batches per step ({}), more computation shares one gather, but a step has more tokens.",
      e.setting("train.accum"));
}

void add_gather(Findings& findings, const Evidence& e) {
  const double ms = e.costs.gather;
  const double width = e.summary.dtype == "f32" ? 4 : 2;
  const double more = e.run.parameters * width * (1 - 1 / std::max(1.0, e.run.ranks));
  const bool could_keep = e.summary.strategy == "zero3" && e.headroom.free_bytes > 2 * more;
  if (e.share(ms) < (could_keep ? kGathered : kExposed)) return;
  std::string text = fmt::format(
      "Waiting for gathered parameters takes {}; gather exposed in Time, less what a late rank explains).{} {}",
      e.of_step(ms), collectives_text(e, {"all_gather"}), e.without(ms));
  if (could_keep) {
    text +=
        " parallel.strategy=zero2 keeps all parameters on each rank, and gathers them once per step instead of twice "
        "per micro-batch." +
        e.plan_with("parallel.strategy=zero2");
  }
  const double on_host = environment_number(e.run, "ranks_on_host");
  const double shard_size = config_number(e.run, "parallel.shard_size");
  if (on_host > 1 && on_host < e.run.ranks && !(shard_size > 0 && shard_size <= on_host) &&
      e.summary.strategy != "ddp") {
    text += fmt::format(" {:g} of {:g} ranks share a host. With parallel.shard_size={:g} gathers stay within it.",
                        on_host, e.run.ranks, on_host);
  }
  findings.push_back({"gather", e.share(ms), "Gathered parameters arrive late", text + fewer_transfers(e)});
}

void add_reduce(Findings& findings, const Evidence& e) {
  const double ms = e.costs.reduce;
  if (e.share(ms) < kExposed) return;
  std::vector<std::string_view> kinds = {"reduce_scatter", "all_reduce"};
  if (e.summary.strategy == "ddp") kinds.push_back("all_gather");  // of reduced gradients
  std::string text = fmt::format(
      "Waiting for reduced gradients takes {}; reduce exposed in Time, less what a late rank explains).{} {}",
      e.of_step(ms), collectives_text(e, kinds), e.without(ms));
  if (config_text(e.run, "parallel.reduce_dtype") == "f32") {
    text += fmt::format(" parallel.reduce_dtype=bf16 {}, but rounds what is sent (now f32).", narrower_reduction(e));
  }
  const bool said = std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.kind == "gather"; });
  findings.push_back({"reduce", e.share(ms), "Reduced gradients arrive late", said ? text : text + fewer_transfers(e)});
}

// Describes the activity in which the rank's own time is furthest above the mean.
std::string longest_activity(const Evidence& e, int rank) {
  ActivityOverRanks worst;
  double excess = 0;
  for (const ActivityOverRanks& activity : mean_breakdown_over_ranks(e.steady)) {
    if (activity.name.ends_with("_exposed") || activity.rank != rank || activity.max - activity.mean <= excess)
      continue;
    excess = activity.max - activity.mean;
    worst = activity;
  }
  if (!(excess > 0)) return {};
  std::string text = fmt::format(" It differs most in {}: {} ms, while the mean is {} ms.", worst.name,
                                 ms_text(worst.max), ms_text(worst.mean));
  if (worst.name == "data") return text + " Check the disk from which it reads its tokens.";
  if (worst.name == "checkpoint") return text + " Check the disk to which it saves.";
  if (environment_number(e.run, "ranks_on_host") == e.run.ranks) {
    return text + " All ranks are on one host, so check what else runs there, and on which processors.";
  }
  return text + " Check its host for other programs, fewer or slower processors, or throttling.";
}

void add_straggler(Findings& findings, const Evidence& e) {
  const double ms = e.costs.straggler;
  if (e.share(ms) < kExposed) return;
  const SlowestRank slowest = slowest_rank(e.steady);
  if (slowest.rank < 0) return;
  if (is_slow(slowest, e.costs.step_ms, e.run.ranks)) {
    findings.push_back(
        {"straggler", e.share(ms), fmt::format("Rank {} is slower than the others", slowest.rank),
         fmt::format(
             "The own time of rank {} (own_ms) is {} ms per step above the mean of the ranks, and it is the slowest "
             "rank in {} of the steps. Waiting for the slowest rank takes {}).{} {}",
             slowest.rank, ms_text(slowest.excess_ms), percent_text(slowest.often), e.of_step(ms),
             longest_activity(e, slowest.rank), e.without(ms))});
    return;
  }
  if (slowest.often >= kMostly) {
    findings.push_back(
        {"straggler", e.share(ms), fmt::format("Rank {} is the slowest, by little", slowest.rank),
         fmt::format("Rank {} is the slowest in {} of the steps; its own time (own_ms) is {} ms above the mean of the "
                     "ranks. Waiting for it takes {}).",
                     slowest.rank, percent_text(slowest.often), ms_text(slowest.excess_ms), e.of_step(ms))});
    return;
  }
  findings.push_back(
      {"straggler", e.share(ms), "The ranks are uneven, but none is consistently slow",
       fmt::format(
           "The own time (own_ms) of a step's slowest rank is {} ms, the mean of the ranks is {} ms, and waiting for "
           "the slowest takes {}). No rank is slow over all steps: the slowest one changes from step to step. Usual "
           "causes are other programs on the hosts and unpinned threads. {}",
           ms_text(mean(column(e.steady, &StepRow::own_ms_max))),
           ms_text(mean(column(e.steady, &StepRow::own_ms_mean))), e.of_step(ms), e.without(ms))});
}

}  // namespace

void add_communication(Findings& findings, const Evidence& e) {
  if (!(e.run.ranks > 1)) return;
  add_gather(findings, e);
  add_reduce(findings, e);
  add_straggler(findings, e);
}

}  // namespace lt::report
