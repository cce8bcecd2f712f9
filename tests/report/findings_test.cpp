// findings(): each kind of bottleneck is named, with its numbers, if a run's record shows it, and not otherwise.
#include "report/findings.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "report/run_files.h"
#include "test_main/catch.h"

namespace {

using fixture::contains;
using lt::report::Finding;
using lt::report::RunData;

using Parts = std::map<std::string, double>;  // ms per step

constexpr double kGiB = 1 << 30;

bool waits_for_others(const std::string& activity) { return activity.ends_with("_exposed"); }

lt::report::ActivityOverRanks over_ranks(const std::string& name, const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v;
  const auto most = std::max_element(values.begin(), values.end());
  return {name, *std::min_element(values.begin(), values.end()), sum / static_cast<double>(values.size()), *most,
          static_cast<double>(most - values.begin())};
}

// Twenty equal steps of ranks with these activities, on a host with one processor and 4 GiB per rank, of which 3.5 GiB
// are used.
RunData run_of(const std::vector<Parts>& ranks) {
  RunData run;
  run.directory = "/runs/a";
  const auto n = static_cast<double>(ranks.size());
  run.ranks = n;
  run.parameters = 1e6;
  run.flops_per_token = 5e6;
  run.config = {{"parallel.strategy", "\"zero3\""},
                {"parallel.recompute", "\"none\""},
                {"parallel.reduce_dtype", "\"bf16\""},
                {"train.micro_batch", "8"},
                {"train.accum", "1"},
                {"train.seq", "1024"},
                {"train.dtype", "\"f32\""},
                {"checkpoint.every", "5"}};
  const std::string count = std::to_string(ranks.size());
  run.environment = {{"processors", count},
                     {"threads_per_rank", "1"},
                     {"ranks", count},
                     {"ranks_on_host", count},
                     {"memory_bytes", std::to_string(static_cast<long>(4 * kGiB * n))}};
  for (int i = 1; i <= 20; ++i) {
    lt::report::StepRow row{.step = static_cast<double>(i), .tokens = 8192 * n, .loss = 3};
    row.step_ms = 0, row.memory_peak_bytes = 3.5 * kGiB, row.memory_outside_bytes = 0;
    row.comm = {{"all_gather", 8e6, 12, 40, 20, 0.2}, {"reduce_scatter", 4e6, 6, 20, 10, 0.2}};
    std::vector<double> own(ranks.size(), 0.0);
    for (const auto& [name, ms] : ranks[0]) {
      row.breakdown_ms.emplace_back(name, ms);
      std::vector<double> values;
      for (std::size_t r = 0; r < ranks.size(); ++r) {
        values.push_back(ranks[r].at(name));
        if (!waits_for_others(name)) own[r] += values.back();
      }
      row.breakdown_over_ranks.push_back(over_ranks(name, values));
      row.step_ms += ms;
    }
    const auto busy = over_ranks("own", own);
    row.own_ms = own;
    row.own_ms_min = busy.min, row.own_ms_mean = busy.mean, row.own_ms_max = busy.max, row.slowest = busy.rank;
    row.step_ms_min = row.step_ms_mean = row.step_ms_max = row.step_ms;
    row.tokens_per_s = row.tokens / row.step_ms * 1e3, row.tokens_per_s_per_rank = row.tokens_per_s / n;
    run.steps.push_back(row);
  }
  return run;
}

std::vector<std::string> kinds(const RunData& run) {
  std::vector<std::string> names;
  for (const Finding& finding : lt::report::findings(run)) names.push_back(finding.kind);
  return names;
}

std::string text_of(const RunData& run, const std::string& kind) {
  for (const Finding& finding : lt::report::findings(run)) {
    if (finding.kind == kind) return finding.headline + ". " + finding.text;
  }
  return {};
}

const Parts kEven = {{"forward", 30.0}, {"backward", 65.0}, {"gather_exposed", 1.0}, {"optimizer", 4.0}};

using Kinds = std::vector<std::string>;

}  // namespace

TEST_CASE("findings: computation", "[report]") {
  RunData run = run_of({kEven, kEven});
  CHECK(lt::report::verdict(run) ==
        "Bound by computation (forward and backward): 95.0 of 100.0 ms of a step on average (95%). Then: the optimizer "
        "4.00 ms (4%), "
        "waiting for transfers (gather and reduce) 1.00 ms (1%).");
  CHECK(kinds(run) == Kinds{"compute"});
  CHECK(
      text_of(run, "compute") ==
      "Computation. Forward takes 30.0 ms, backward 65.0 ms: together 95.0 of 100.0 ms per step (95%). A rank reaches "
      "409.6 GFLOP/s, without recomputation; the processor's peak is unknown. With train.dtype=bf16 activations take "
      "half the memory, and matmuls are faster if the processor has instructions for bf16; the command bench "
      "step measures both. Only 1.0% of a step is spent waiting for other ranks or for transfers; the command bench "
      "scaling measures what more ranks bring.");
  for (auto& step : run.steps) step.mfu = 0.41;
  CHECK(contains(text_of(run, "compute"), "MFU is 41.0%"));
  run.flops_per_token = 0;  // a model that does not say
  CHECK(!contains(text_of(run, "compute"), "GFLOP/s"));
  CHECK(contains(text_of(run_of({kEven}), "compute"), "the command bench scaling measures what more ranks bring"));
}

TEST_CASE("findings: data", "[report]") {
  const RunData run = run_of({{{"forward", 20.0}, {"backward", 30.0}, {"data", 50.0}}});
  CHECK(lt::report::verdict(run) ==
        "Bound by computation (forward and backward): 50.0 of 100.0 ms of a step on average (50%). Then: waiting for "
        "data 50.0 ms "
        "(50%).");
  CHECK(kinds(run) == Kinds{"data", "compute"});
  CHECK(contains(text_of(run, "data"),
                 "50.0 of 100.0 ms per step (50%; data in Time). Without this there would be "
                 "at most 100% more tokens per second."));
  CHECK(contains(lt::report::verdict(run_of({{{"forward", 10.0}, {"data", 30.0}}})),
                 "Bound by waiting for data: 30.0 of 40.0"));
}

TEST_CASE("findings: gathers and reductions", "[report]") {
  const Parts parts = {{"forward", 20.0}, {"backward", 20.0}, {"gather_exposed", 45.0}, {"reduce_exposed", 15.0}};
  RunData run = run_of({parts, parts});
  CHECK(contains(lt::report::verdict(run), "Bound by waiting for transfers (gather and reduce): 60.0 of 100.0"));
  CHECK(kinds(run) == Kinds{"gather", "reduce"});
  const std::string text = text_of(run, "gather");
  CHECK(contains(text, "45.0 of 100.0 ms per step (45%"));
  CHECK(
      contains(text, "In each step all_gather sends 7.63 MiB in 12 calls, which are in flight for 40.0 ms: 0.2 GB/s"));
  CHECK(contains(text, "at most 82% more"));
  CHECK(contains(text, "parallel.strategy=zero2"));               // 2 MB more where 512 MiB are free
  CHECK_FALSE(contains(text, "A larger micro-batch"));            // an eighth of the memory is free
  CHECK_FALSE(contains(text_of(run, "reduce"), "reduce_dtype"));  // is bf16 already
  run.config["parallel.reduce_dtype"] = "\"f32\"";
  run.config["parallel.strategy"] = "\"ddp\"";
  for (auto& step : run.steps) step.memory_peak_bytes = 1 * kGiB;
  CHECK(contains(text_of(run, "reduce"), "parallel.reduce_dtype=bf16 halves"));
  CHECK(contains(text_of(run, "gather"),
                 "train.micro_batch is 8, and a rank uses 1.00 GiB of 4.00 GiB, its share of the host's memory"));
  CHECK_FALSE(contains(text_of(run, "gather"), "zero2"));
  CHECK(kinds(run_of({kEven, kEven, kEven})) == Kinds{"compute"});  // hidden time is not a finding
}

TEST_CASE("findings: reductions over replicas, and of ddp", "[report]") {
  const Parts parts = {{"forward", 20.0}, {"backward", 20.0}, {"gather_exposed", 0.0}, {"reduce_exposed", 60.0}};
  RunData run = run_of({parts, parts, parts, parts});
  const auto text_with = [&](const std::vector<lt::report::CommRow>& comm) {
    for (auto& step : run.steps) step.comm = comm;
    return text_of(run, "reduce");
  };
  run.config["parallel.reduce_dtype"] = "\"f32\"";
  run.config["parallel.shard_size"] = "2";
  CHECK(contains(
      text_with({{"reduce_scatter", 4e6, 6, 20, 10}, {"all_gather", 8e6, 12, 40, 20}, {"all_reduce", 2e6, 6, 50, 50}}),
      "In each step all_reduce sends 1.91 MiB in 6 calls, which are in flight for 50.0 ms: 0.04 GB/s; reduce_scatter "
      "sends 3.81 MiB in 6 calls, which are in flight for 20.0 ms: 0.2 GB/s. Without this there would be at most 150% "
      "more tokens per second. parallel.reduce_dtype=bf16 saves a quarter of what all_reduce sends, because its sums "
      "travel as f32, and half of what reduce_scatter sends, but rounds what is sent (now f32)."));
  run.config["parallel.shard_size"] = "1";  // reduce_scatter has nothing to send
  const std::string text = text_with({{"reduce_scatter", 0, 12, 0, 0}, {"all_reduce", 3e9, 6, 10, 50}});
  CHECK(
      contains(text, "In each step all_reduce sends 2.79 GiB in 6 calls, which are in flight for 10.0 ms: 300 GB/s. "));
  CHECK(contains(text, "because its sums travel as f32, but rounds"));
  CHECK_FALSE(contains(text, "reduce_scatter"));
  run.config["parallel.shard_size"] = "0";
  run.config["parallel.strategy"] = "\"ddp\"";  // gathers the reduced gradients
  CHECK(contains(text_with({{"reduce_scatter", 4e6, 6, 20, 10}, {"all_gather", 4e6, 6, 40, 20}}),
                 "In each step all_gather sends 3.81 MiB in 6 calls, which are in flight for 40.0 ms: 0.1 GB/s; "
                 "reduce_scatter sends"));
}

TEST_CASE("findings: a slow rank", "[report]") {
  const Parts fast = {{"forward", 20.0}, {"backward", 40.0}, {"reduce_exposed", 40.0}},
              slow = {{"forward", 60.0}, {"backward", 40.0}, {"reduce_exposed", 0.0}};
  RunData run = run_of({fast, fast, slow, fast});
  CHECK(kinds(run) == Kinds{"compute", "straggler"});  // the waiting is for rank 2, not for the transfer
  CHECK(
      text_of(run, "straggler") ==
      "Rank 2 is slower than the others. The own time of rank 2 (own_ms) is 30.0 ms per step above the mean of the "
      "ranks, and it is the slowest rank in 100% of the steps. Waiting for the slowest rank takes 30.0 of 100.0 ms per "
      "step (30%). It differs most in forward: 60.0 ms, while the mean is 30.0 ms. All ranks are on one host, so check "
      "what else runs there, and on which processors. Without this there would be at most 43% more tokens per second.");
  run.environment[3].second = "2";  // two on this host, two elsewhere
  CHECK(contains(text_of(run, "straggler"), "Check its host"));
  for (auto& step : run.steps) step.own_ms = {69, 69, 72, 69};  // always the slowest, but by little
  CHECK(contains(text_of(run, "straggler"),
                 "Rank 2 is the slowest, by little. Rank 2 is the slowest in 100% of the steps; its own time (own_ms) "
                 "is 2.25 ms above"));
  for (auto& step : run.steps) step.own_ms.clear();  // more ranks than rows list
  CHECK(contains(text_of(run, "straggler"), "Rank 2 is slower"));
  for (std::size_t i = 0; i < run.steps.size(); ++i) run.steps[i].slowest = static_cast<double>(i % 4);
  CHECK(contains(text_of(run, "straggler"), "The ranks are uneven, but none is consistently slow"));
  CHECK(contains(text_of(run, "straggler"), "No rank is slow over all steps"));
  for (std::size_t i = 0; i < run.steps.size(); ++i) {  // rank 3's few slow steps alone raise its mean
    run.steps[i].own_ms = {60, 60, 60, 60};
    run.steps[i].own_ms[i % 4] = i % 4 == 3 ? 110 : 70;
  }
  CHECK(contains(text_of(run, "straggler"), "The ranks are uneven, but none is consistently slow"));
  for (std::size_t i = 0; i < run.steps.size(); i += 4) run.steps[i].slowest = 3, run.steps[i].own_ms[3] = 80;
  CHECK(contains(text_of(run, "straggler"), "Rank 3 is slower than the others"));
}

TEST_CASE("findings: recomputation is advised against where memory is left alone", "[report]") {
  RunData run = run_of({{{"forward", 25.0}, {"backward", 50.0}, {"recompute", 25.0}}});
  run.config["parallel.recompute"] = "\"full\"";
  CHECK(contains(text_of(run, "recompute"), "parallel.recompute_every=2"));  // 0.5 of 4 GiB are free
  for (auto& step : run.steps) step.memory_peak_bytes = 1 * kGiB;
  CHECK(kinds(run) == Kinds{"compute", "recompute"});
  CHECK(
      contains(text_of(run, "recompute"),
               "25.0 of 100.0 ms per step (25%; recompute in Time) to save memory, "
               "but a rank uses 1.00 GiB of 4.00 GiB, its share of the host's memory. Try parallel.recompute=none, or "
               "selective, which recomputes only what is cheap. ltrain plan --config /runs/a/config.toml --ranks 1 "
               "--parallel.recompute=none says how much memory that takes."));
  // Another program has a row for the model, or made it without keys.
  run.config["model.from"] = "\"\"";
  CHECK(!contains(text_of(run, "recompute"), "plan --config"));
  run.config["model.family"] = "\"adder\"";
  run.environment.emplace_back("command", "own_program train --train.steps=2");
  CHECK(contains(text_of(run, "recompute"), " own_program plan --config /runs/a/config.toml"));
  run.environment.pop_back();
  for (auto& step : run.steps) step.memory_peak_bytes = 3.9 * kGiB;
  CHECK(kinds(run) == Kinds{"compute"});
  run.environment.clear();  // nothing is known of the memory
  CHECK(kinds(run) == Kinds{"compute"});
}

TEST_CASE("findings: threads, micro-batches, optimizer, checkpoints and evaluation", "[report]") {
  RunData run = run_of({kEven, kEven});
  run.environment[0].second = "1";
  CHECK(contains(text_of(run, "processors"), "2 ranks of 1 thread run on 1 processors"));
  run.environment[0].second = "8";
  CHECK(contains(text_of(run, "processors"), "OMP_NUM_THREADS=4"));
  for (auto& [key, value] : run.environment) {
    if (key == "threads_per_rank") value = "4";
  }
  CHECK(text_of(run, "processors").empty());

  run = run_of({kEven});
  run.config["train.micro_batch"] = "1";
  CHECK(kinds(run) == Kinds{"compute"});  // an eighth of the memory is free
  for (auto& step : run.steps) step.memory_peak_bytes = 1 * kGiB;
  run.config["train.accum"] = "8";
  CHECK(contains(text_of(run, "micro_batch"), "1 x 1024 = 1024 tokens, and a rank uses 1.00 GiB"));
  CHECK(contains(text_of(run, "micro_batch"), "micro-batches 4 times as large"));

  const Parts updating = {{"forward", 30.0}, {"backward", 50.0}, {"optimizer", 20.0}};
  run = run_of({updating, updating});
  run.config["parallel.strategy"] = "\"ddp\"";
  CHECK(contains(text_of(run, "optimizer"), "a rank updates 1/2 of them, which saves about 10.0 ms"));

  run = run_of({{{"forward", 30.0}, {"backward", 60.0}, {"checkpoint", 10.0}}});
  for (double step : {5.0, 10.0, 15.0}) run.events.push_back({.kind = "checkpoint", .step = step, .seconds = 0.05});
  CHECK(contains(text_of(run, "checkpoint"),
                 "3 checkpoints held training up for 0.05 s each (events), and checkpoint.every is 5. Saving"));
  run.config["checkpoint.every"] = "0", run.config["checkpoint.every_minutes"] = "2.5";
  for (auto& save : run.events) save.fields = {{"stall_seconds", "0.02"}};  // the rest passed beside the steps
  CHECK(contains(text_of(run, "checkpoint"),
                 "held training up for 0.02 s each (events), and checkpoint.every_minutes is 2.5."));
  run.events = {{.kind = "start", .step = 0}, {.kind = "end", .step = 20, .seconds = 4}};
  run.evals = {{.kind = "eval", .step = 10, .loss = 3}};
  CHECK(contains(
      text_of(run, "outside"),
      "The run took 4.0 s (event end), of which all steps took 2.0 s. The other 2.0 s, 50% of the run, went to 1 "
      "evaluation. Evaluate"));
}

TEST_CASE("findings: nothing is reported that was not recorded", "[report]") {
  RunData run;
  CHECK(lt::report::findings(run).empty());
  run.steps.push_back({.step = 1, .loss = 3, .step_ms = 100});
  CHECK(lt::report::findings(run).empty());
  CHECK(lt::report::verdict(run) ==
        "The metrics have no breakdown of a step, so the report cannot say where its time goes.");
}
