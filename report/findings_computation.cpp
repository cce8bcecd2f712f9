// Findings about a rank's own work: computation, recomputation, optimizer, threads and micro-batches.
#include <algorithm>
#include <cmath>

#include "report/evidence.h"

namespace lt::report {
namespace {

void add_recompute(Findings& findings, const Evidence& e) {
  const double ms = e.costs.recompute;
  // If memory is short, recomputation makes the run fit.
  if (e.share(ms) < 0.03 || !e.has_free_memory(0.1)) return;
  const double every = std::max(1.0, config_number(e.run, "parallel.recompute_every"));
  const std::string fewer = fmt::format("parallel.recompute_every={:g}", 2 * every);
  std::string advice = "parallel.recompute=none", setting = advice;
  if (!e.has_free_memory(0.3)) {
    setting = fewer, advice = fewer + ", which recomputes half as many blocks";
  } else if (e.summary.recompute == "full") {
    advice += ", or selective, which recomputes only what is cheap";
  }
  findings.push_back({"recompute", e.share(ms), "Recomputation although memory is left",
                      fmt::format("Recomputation takes {}; recompute in Time) to save memory, but {}. Try {}.{} {}",
                                  e.of_step(ms), e.free_memory(), advice, e.plan_with(setting), e.without(ms))});
}

// Compares the threads of the host's ranks with its processors.
void add_processors(Findings& findings, const Evidence& e) {
  const double processors = environment_number(e.run, "processors");
  double ranks = environment_number(e.run, "ranks_on_host"), threads = threads_per_rank(e.run);
  if (std::isnan(ranks)) ranks = environment_number(e.run, "ranks");
  if (std::isnan(threads)) threads = processors;  // OpenMP's default
  if (!(processors > 0) || !(ranks > 0) || on_gpu(e.run)) return;
  const double used = ranks * threads;
  const double compute = e.share(e.costs.compute());
  const std::string count = fmt::format("{:g} rank{} of {:g} thread{} run on {:g} processors (env.json)", ranks,
                                        ranks == 1 ? "" : "s", threads, threads == 1 ? "" : "s", processors);
  const double fair = std::max(1.0, std::floor(processors / ranks));
  if (used > processors) {
    findings.push_back(
        {"processors", std::max(compute, 0.05) * (1 - processors / used), "More threads than processors",
         fmt::format(
             "{}, so threads take turns, and a rank that waits for another one also waits for that one's turn. {}",
             count,
             ranks <= processors ? fmt::format("With OMP_NUM_THREADS={:g} each thread has a processor.", fair)
                                 : "Start fewer ranks on this host.")});
  } else if (fair > threads && compute > 0.5) {
    findings.push_back({"processors", compute * (1 - used / processors), "Processors without work",
                        fmt::format("{}, while computation takes {}). OMP_NUM_THREADS={:g} would use all of them.",
                                    count, e.of_step(e.costs.compute()), fair)});
  }
}

void add_optimizer(Findings& findings, const Evidence& e) {
  const double ms = e.costs.optimizer;
  if (e.share(ms) < 0.08) return;
  std::string text = fmt::format(
      "Gradient norm, clipping and the optimizer take {}; optimizer in Time), however many tokens a "
      "step has.",
      e.of_step(ms));
  if (e.run.ranks > 1 && e.summary.strategy == "ddp") {
    text += fmt::format(
        " Under ddp every rank updates all parameters. Under parallel.strategy=zero1 a rank updates 1/{:g} of them, "
        "which saves about {} ms and sends no more.",
        e.run.ranks, ms_text(ms * (1 - 1 / e.run.ranks)));
  } else {
    text += fmt::format(" With more tokens per step (train.accum, train.micro_batch: {}, {}) its share falls.",
                        e.setting("train.accum"), e.setting("train.micro_batch"));
  }
  findings.push_back({"optimizer", e.share(ms), "The update takes a large share of a step", text});
}

// Suggests larger micro-batches. If a step has several, it suggests fewer of them, so that the batch stays the same.
void add_micro_batch(Findings& findings, const Evidence& e) {
  const double micro_batch = config_number(e.run, "train.micro_batch"), accum = config_number(e.run, "train.accum"),
               seq = config_number(e.run, "train.seq");
  const double tokens = micro_batch * seq, compute = e.share(e.costs.compute());
  if (!(tokens < 4096) || !e.has_free_memory(0.5) || compute < 0.3) return;
  std::string text =
      fmt::format("A pass processes {:g} x {:g} = {:g} tokens, and {}.", micro_batch, seq, tokens, e.free_memory());
  if (accum > 1) {
    const double larger = std::min(accum, std::max(2.0, std::floor(4096 / tokens)));
    text += fmt::format(
        " {}: with micro-batches {:g} times as large, and as many times fewer, a step is the same but its matrix "
        "matmuls are longer.",
        e.setting("train.accum"), larger);
  } else {
    text +=
        " Larger micro-batches make longer matmuls, which processors compute faster; the command bench step "
        "measures by how much. They also mean more tokens per step, which changes training: adjust the learning rate "
        "and the number of steps to the batch.";
  }
  findings.push_back({"micro_batch", 0, "Small micro-batches although memory is left", text});
}

void add_compute(Findings& findings, const Evidence& e) {
  const double ms = e.costs.compute();
  if (e.share(ms) < 0.5) return;
  std::string text = fmt::format(
      "Forward takes {} ms, backward {} ms{}: together {}).", ms_text(e.costs.forward), ms_text(e.costs.backward),
      e.costs.recompute > 0 ? fmt::format(", recomputation {} ms", ms_text(e.costs.recompute)) : "", e.of_step(ms));
  const double speed = e.run.flops_per_token * e.summary.tokens_per_s_per_rank;
  if (speed > 0) {  // a model of the program's own may not know its FLOPs
    text += fmt::format(" A rank reaches {}, without recomputation{}.", flops_text(speed),
                        std::isfinite(e.summary.mfu) ? "" : "; the processor's peak is unknown");
  }
  if (std::isfinite(e.summary.mfu)) {
    text += fmt::format(" MFU is {}: the rest of the dense peak is idle, or spent on work that MFU does not count.",
                        percent_text(e.summary.mfu, 1));
  }
  if (e.summary.dtype == "f32") {
    text +=
        " With train.dtype=bf16 activations take half the memory, and matmuls are faster if the processor has "
        "instructions for bf16; the command bench step measures both.";
  }
  const double waits = e.share(e.costs.communication() + e.costs.straggler);
  const bool hidden = waits < 0.1, alone = e.run.ranks == 1;
  if (alone) {
    text += " One rank computes everything; the command bench scaling measures what more ranks bring.";
  } else if (hidden) {
    text += fmt::format(
        " Only {} of a step is spent waiting for other ranks or for transfers; the command bench scaling measures what "
        "more ranks bring.",
        percent_text(waits, 1));
  }
  findings.push_back({"compute", e.share(ms), "Computation", text});
}

}  // namespace

void add_computation(Findings& findings, const Evidence& e) {
  add_recompute(findings, e);
  add_processors(findings, e);
  add_optimizer(findings, e);
  add_micro_batch(findings, e);
  add_compute(findings, e);
}

}  // namespace lt::report
