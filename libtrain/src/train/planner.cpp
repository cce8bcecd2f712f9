// The planner: the real engine and model, on the meta device.
#include "libtrain/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libtrain/engine.h"
#include "libtrain/error.h"
#include "libtrain/generate.h"
#include "libtrain/record.h"
#include "libtrain/run_options.h"
#include "record/short_text.h"

namespace lt {
namespace {

Tensor meta_tokens(Size samples, Size seq) {
  const MemoryScope owner(MemoryOwner::data);
  return Tensor::empty({samples, seq}, DType::i32, kMeta);
}

constexpr int kMaxRanks = 1 << 20;

// Bytes by the formulas of docs/strategies.md.
void evaluate_formulas(Plan& plan, const Config& config, double padded, int shard_ranks) {
  const Strategy& strategy = find_strategy(config.parallel.strategy);
  const double n = shard_ranks;
  const bool mixed = config.train.dtype != "f32";
  const auto held = [&](double bytes, Placement placement) {
    return placement == Placement::sharded ? bytes * padded / n : bytes * padded;
  };
  plan.formula_parameters = held(mixed ? 2 : 4, strategy.parameters);
  plan.formula_gradients = held(4, strategy.gradients);
  plan.formula_optimizer = held(mixed ? 12 : 8, strategy.optimizer);
  plan.parameters_held = held(1, strategy.parameters);
  plan.parameters_optimized = held(1, strategy.optimizer);
}

Size total_bytes(const std::vector<CommTotal>& totals) {
  Size sum = 0;
  for (const CommTotal& total : totals) sum += total.bytes;
  return sum;
}

}  // namespace

RunBatches batches_on_meta(const BatchShape& shape, const Config& config) {
  const auto batch = [&](Size samples) {
    return Batch{meta_tokens(samples, shape.seq), meta_tokens(samples, shape.seq)};
  };
  RunBatches batches{batch(shape.samples()), {}};
  if (config.train.eval_every > 0) batches.evaluation = batch(shape.micro_batch);
  return batches;
}

// Every rank has shards of the same size, so one rank stands for all.
Plan make_plan(const Config& given, int ranks) {
  if (ranks < 1 || ranks > kMaxRanks) {
    throw UsageError("plan", fmt::format("ranks: expected 1 to {}, got {}", kMaxRanks, ranks));
  }
  const Config config = resolve(given);
  const auto model = nn::make_transformer(model_spec(config));
  StepOptions options = step_options(config);
  options.device = kMeta;
  const MemoryUse before = memory_live(kMeta);
  Engine engine(*model, Group::meta(0, ranks), parallel_options(config), adamw_options(config), options);
  const BatchShape shape = engine.batch_shape();
  Plan plan;
  const RunBatches batches = batches_on_meta(shape, config);
  engine.rehearse(batches.step, batches.evaluation);
  reset_memory_peak(kMeta);
  take_comm_totals();
  engine.step(batches.step);
  plan.comm = take_comm_totals();
  if (batches.evaluation) engine.evaluate(*batches.evaluation);
  const Size stepping_bytes = memory_peak(kMeta).total - before.total;
  if (config.train.sample_every > 0) engine.with_parameters([&] { sample(*model, {0}, config.train.seed); });
  take_comm_totals();

  const nn::TransformerSpec& spec = model->spec();
  plan.subject = fmt::format("{}: {} layers, {} heads, {} kv_heads, width {}, ffn {}, vocab {}; {}, recompute {}, {}",
                             spec.family, spec.layers, spec.heads, spec.kv_heads, spec.width, spec.ffn, spec.vocab,
                             config.parallel.strategy, config.parallel.recompute, config.train.dtype);
  plan.ranks = ranks;
  plan.ledger = memory_peak(kMeta);
  for (std::size_t i = 0; i < kMemoryOwners; ++i) plan.ledger.by_owner[i] -= before.by_owner[i];
  plan.ledger.total -= before.total;
  plan.peak_bytes = plan.ledger.total;
  // Rank 0 samples.
  plan.per_rank.assign(static_cast<std::size_t>(ranks), stepping_bytes);
  plan.per_rank[0] = plan.peak_bytes;
  plan.arena_bytes = engine.arena_bytes();
  for (const MemoryProgram* program : engine.memory_programs()) {
    plan.arena_live_bytes = std::max(plan.arena_live_bytes, most_live_bytes(program->lifetimes));
    plan.without_arena_bytes = std::max(plan.without_arena_bytes, bytes_without_arena(program->lifetimes));
  }
  plan.parameters = model->parameter_count();
  plan.flops_per_token = model->flops_per_token(shape.seq);
  plan.tokens_per_step = shape.global_tokens();
  const int shard_ranks = engine.parallel().shard_size == 0 ? ranks : engine.parallel().shard_size;
  evaluate_formulas(plan, config, static_cast<double>(engine.padded_parameters()), shard_ranks);
  return plan;
}

std::string to_json(const Plan& plan) {
  nlohmann::ordered_json ledger, comm = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < kMemoryOwners; ++i) ledger[std::string(kMemoryOwnerNames[i])] = plan.ledger.by_owner[i];
  for (const CommTotal& total : plan.comm) {
    comm.push_back({{"op", std::string(to_string(total.op))}, {"bytes", total.bytes}, {"calls", total.calls}});
  }
  return nlohmann::ordered_json{{"ranks", plan.ranks},
                                {"peak_bytes", plan.peak_bytes},
                                {"per_rank", plan.per_rank},
                                {"ledger", ledger},
                                {"arena",
                                 {{"bytes", plan.arena_bytes},
                                  {"live_bytes", plan.arena_live_bytes},
                                  {"without_arena_bytes", plan.without_arena_bytes}}},
                                {"parameters", plan.parameters},
                                {"flops_per_token", plan.flops_per_token},
                                {"tokens_per_step", plan.tokens_per_step},
                                {"comm", comm},
                                {"formulas",
                                 {{"parameters", plan.formula_parameters},
                                  {"gradients", plan.formula_gradients},
                                  {"optimizer", plan.formula_optimizer}}}}
      .dump(2);
}

std::string to_text(const Plan& plan) {
  const auto mib = [](double bytes) { return fmt::format(" {:>11.3f} MiB", bytes / (1 << 20)); };
  std::string text = plan.subject + "\n";
  text += fmt::format("{} parameters, {:.3f} MFLOP a token, {} tokens a step on {} rank{}\n\n",
                      short_count(static_cast<double>(plan.parameters)), plan.flops_per_token / 1e6,
                      plan.tokens_per_step, plan.ranks, plan.ranks == 1 ? "" : "s");
  text += "memory of a rank at its peak         bytes by formula (state alone)\n";
  for (std::size_t i = 0; i < kMemoryOwners; ++i) {
    const auto owner = static_cast<MemoryOwner>(i);
    const double formula = owner == MemoryOwner::parameters  ? plan.formula_parameters
                           : owner == MemoryOwner::gradients ? plan.formula_gradients
                           : owner == MemoryOwner::optimizer ? plan.formula_optimizer
                                                             : 0;
    text += fmt::format("  {:<14}{}", kMemoryOwnerNames[i], mib(static_cast<double>(plan.ledger.by_owner[i])));
    text += formula > 0 ? mib(formula) + "\n" : "\n";
  }
  text += fmt::format("  {:<14}{}\n\n", "peak", mib(static_cast<double>(plan.peak_bytes)));
  text += "arena, in the owners above\n";
  text += fmt::format("  {:<14}{}\n", "size", mib(static_cast<double>(plan.arena_bytes)));
  text +=
      fmt::format("  {:<14}{}, size / live {:.4f}\n", "live at most", mib(static_cast<double>(plan.arena_live_bytes)),
                  static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.arena_live_bytes));
  text += fmt::format("  {:<14}{}, each size with blocks of its own\n\n", "without it",
                      mib(static_cast<double>(plan.without_arena_bytes)));
  text += "sent by a rank in a step\n";
  for (const CommTotal& total : plan.comm) {
    text += fmt::format("  {:<14}{} in {} call{}\n", to_string(total.op), mib(static_cast<double>(total.bytes)),
                        total.calls, total.calls == 1 ? "" : "s");
  }
  text += fmt::format("  {:<14}{}\n", "all", mib(static_cast<double>(total_bytes(plan.comm))));
  return text;
}

}  // namespace lt
