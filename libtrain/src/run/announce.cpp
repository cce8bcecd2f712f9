// Announces an open run: logs the lines at its start, writes its files and the event `start`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/format/load.h"
#include "config/base_model.h"
#include "config/model_table.h"
#include "config/names.h"
#include "config/optimizer_choices.h"
#include "config/origin.h"
#include "config/resolve.h"
#include "device/cuda.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "libtrain/parallel/determinism.h"
#include "libtrain/version.h"
#include "plan/plan_text.h"
#include "record/short_text.h"
#include "run/resolve_run.h"
#include "run/run.h"
#include "run/run_files.h"
#include "run/same_run.h"
#include "run/training_data.h"

namespace lt::run {
namespace {

// The options with which this many samples a step stay as many.
std::string how_to_keep(Size samples, const BatchShape& shape) {
  if (samples % shape.ranks != 0) return fmt::format("{} ranks cannot keep it", shape.ranks);
  const Size micro_batch = std::gcd(samples / shape.ranks, shape.micro_batch);
  return fmt::format("--train.global_batch={}{} keeps it", samples,
                     micro_batch == shape.micro_batch ? "" : fmt::format(" --train.micro_batch={}", micro_batch));
}

bool begins_data(const Start& start) {
  const auto* const other = std::get_if<FromOtherRun>(&start);
  return other != nullptr && other->begins_data;
}

// The learning rates on both sides of a resume at `step`, if they differ by more than either schedule changes them
// there; otherwise empty.
std::string jump_of_rate(const Config& earlier, const Schedule& after, Size step) {
  if (step < 1 || earlier.data.epochs > 0) return {};  // the steps of epochs are not in the checkpoint
  const Schedule before = config::schedule_of(earlier);
  const double last = before.at(step), next = after.at(step + 1);
  const double change = std::max(std::abs(before.at(step + 1) - last), std::abs(next - after.at(step)));
  if (std::abs(next - last) <= change + 1e-9 * std::abs(last)) return {};
  return fmt::format("learning rate: {:.2e} at step {}, {:.2e} at step {}", last, step, next, step + 1);
}

// What a resumed run does differently from the run that wrote the checkpoint, a line each.
std::vector<std::string> changes_since(const checkpoint::Loaded& checkpoint, const Run& run) {
  const Resolved& resolved = run.resolved;
  if (checkpoint.state.config.empty()) return {};
  const std::optional<Config> known = config::known_config(checkpoint.state, resolved.config.models);
  if (!known) return {};
  const Config& earlier = *known;
  std::vector<std::string> lines;
  const BatchShape shape = run.engine->batch_shape();
  const TrainConfig& train = earlier.train;
  const Size samples = global_batch_of(earlier, checkpoint.folder);
  if (samples != shape.global_samples()) {
    lines.push_back(fmt::format("global batch: {} samples before, {} now; {}", samples, shape.global_samples(),
                                how_to_keep(samples, shape)));
  }
  if (const Size tokens = samples * train.seq; tokens != shape.global_tokens()) {
    lines.push_back(fmt::format("tokens a step: {} before, {} now", tokens, shape.global_tokens()));
  }
  const auto before = flatten(earlier), now = flatten(resolved.config);
  const auto is_known = [&](std::string_view key) {
    return !key.starts_with("optim.") || earlier.origins.contains(std::string(key));
  };
  const bool in_epochs = earlier.data.epochs > 0 || resolved.data.epochs > 0;
  const char* const length = in_epochs ? "data.epochs" : "train.steps";
  // The same epochs are other steps with another batch, or if the data begins again.
  const bool has_other_steps = in_epochs && (samples != shape.global_samples() || begins_data(run.from.start));
  for (const char* key :
       {length, "optim.schedule", "optim.lr", "optim.min_lr", "optim.warmup", "optim.weight_decay", "optim.clip",
        "model.dropout", "train.label_smoothing", "train.z_loss", "train.dtype", "train.seed", "data.documents"}) {
    // A program's own model has no dropout, and functions of the program replace keys.
    if (!before.contains(key) || !now.contains(key) || !is_known(key)) continue;
    const bool is_same = before.at(key) == now.at(key);
    if (is_same && !(key == length && has_other_steps)) continue;
    lines.push_back(is_same ? fmt::format("{}: {} as before", key, now.at(key))
                            : fmt::format("{}: {} before, {} now", key, before.at(key), now.at(key)));
    if (key != length) continue;
    if (in_epochs) lines.back() += fmt::format(", {} steps in all", resolved.steps());
    lines.back() += fmt::format(", of which {} remain", resolved.steps() - run.steps_done());
    if (!resolved.own_schedule && resolved.schedule.decay != Decay::constant)
      lines.back() += "; the schedule of the learning rate ends with them";
  }
  for (const auto& [key, value] : now) {
    if (!key.starts_with("batches.") || !before.contains(key) || before.at(key) == value) continue;
    lines.push_back(fmt::format("{}: {} before, {} now", key, before.at(key), value));
  }
  if (!resolved.own_schedule && is_known("optim.schedule")) {
    if (const std::string jump = jump_of_rate(earlier, resolved.schedule, run.steps_done()); !jump.empty())
      lines.push_back(jump);
  }
  if (run.data.loader != nullptr) std::ranges::move(order_changes(earlier, resolved.config), std::back_inserter(lines));
  return lines;
}

// True if the present schedule gives the finished steps the learning rates that they had.
bool had_same_rates(const Config& earlier, const Schedule& now, Size steps_done) {
  const Schedule before = config::schedule_of(earlier);
  for (Size step = 1; step <= steps_done; ++step) {
    if (before.at(step) != now.at(step)) return false;
  }
  return true;
}

// Lists the settings by which a resume has other bits than a run without a stop, one per line. `earlier`: the
// configuration of the state, which rank 0 read.
std::vector<std::string> settings_for_other_bits(Config earlier, const Run& run) {
  const Resolved& resolved = run.resolved;
  const checkpoint::RunState& state = state_of(run.from.start);
  if (const checkpoint::Loaded* const resumed = checkpoint_of(run.from.start))
    earlier.train.global_batch = global_batch_of(earlier, resumed->folder);
  const DeviceType device = run.device().type;
  if (!earlier.train.device) {  // auto; the state of an elastic run on processors has threads
    const DeviceType by_threads = state.threads_per_rank > 0 ? DeviceType::cpu : DeviceType::cuda;
    earlier.train.device = is_elastic(earlier) ? by_threads : device;
  }
  Config now = resolved.config;
  now.train.global_batch = run.engine->batch_shape().global_samples();
  std::vector<std::string> lines = bit_changes(earlier, now);
  const Size threads = run.world.threads().count;
  if (device == DeviceType::cpu && state.threads_per_rank > 0 && state.threads_per_rank != threads)
    lines.push_back(fmt::format("threads a rank: {0} before, {1} now; OMP_NUM_THREADS={0} keeps them",
                                state.threads_per_rank, threads));
  if (begins_data(run.from.start)) lines.push_back("other samples");
  const bool in_epochs = earlier.data.epochs > 0 || resolved.data.epochs > 0;
  if (in_epochs && earlier.data.epochs != resolved.data.epochs && resolved.schedule.decay != Decay::constant) {
    lines.push_back(fmt::format("data.epochs: {} before, {} now", earlier.data.epochs, resolved.data.epochs));
  } else if (!in_epochs && !resolved.own_schedule && earlier.train.steps != resolved.steps() &&
             !had_same_rates(earlier, resolved.schedule, run.steps_done())) {
    lines.push_back(fmt::format("train.steps: {} before, {} now", earlier.train.steps, resolved.steps()));
  }
  return lines;
}

// What the start says about bits at a resume. GPUs, libraries and table are always compared, settings only if the run
// is or was elastic, the build never. Empty: no known change, but not everything was compared.
std::string bits_after_resume(const Run& run) {
  const checkpoint::RunState& state = state_of(run.from.start);
  const std::optional<Config> earlier =
      state.config.empty() ? std::nullopt : config::known_config(state, run.resolved.config.models);
  const bool compares_settings = is_elastic(run.resolved.config) || (earlier && is_elastic(*earlier));
  std::vector<std::string> reasons;
  if (compares_settings) {
    reasons =
        earlier ? settings_for_other_bits(*earlier, run) : std::vector<std::string>{"the settings before are unknown"};
  }
  std::ranges::move(computation_changes(state.computed_by, run.algorithms.computed_by), std::back_inserter(reasons));
  if (!reasons.empty())
    return fmt::format("the bits end after step {}: {}", run.steps_done(), fmt::join(reasons, "; "));
  if (!compares_settings) return {};
  return fmt::format("the bits continue at step {}, as in a run without a stop, if {} the same", run.steps_done() + 1,
                     state.computed_by.empty() ? "build and kind of device are" : "the build is");
}

// "the same bits on 1, 2 and 4 ranks".
std::string ranks_of_same_bits(const BatchShape& shape) {
  const std::vector<int> counts = elastic_rank_counts(shape.accum * shape.ranks);
  if (counts.size() == 1) return "the same bits only on 1 rank";
  return fmt::format("the same bits on {} and {} ranks", fmt::join(counts.begin(), counts.end() - 1, ", "),
                     counts.back());
}

// "f32 (as in the checkpoint)".
std::string dtype_of(const Resolved& resolved) {
  const std::string name = resolved.step.tf32 ? "f32 with matmuls in TF32" : config::name_of(resolved.precision);
  const auto origin = resolved.config.origins.find("train.dtype");
  if (origin != resolved.config.origins.end() && origin->second == config::kFromCheckpoint)
    return name + " (as in the checkpoint)";
  return resolved.config.derived.contains("train.dtype") ? name + " (auto)" : name;
}

// "every 30 minutes in the background, and at the end".
std::string saves_of(const Resolved& resolved) {
  const CheckpointConfig& policy = resolved.checkpoint;
  std::vector<std::string> times;
  if (policy.every > 0) times.push_back(policy.every == 1 ? "every step" : fmt::format("every {} steps", policy.every));
  if (policy.every_minutes > 0) times.push_back(fmt::format("every {:g} minutes", policy.every_minutes));
  if (times.empty()) return "at the end only";
  const bool is_default = resolved.config.derived.contains("checkpoint.every_minutes") && policy.every_minutes > 0;
  const bool lacks_memory = is_default && resolved.config.derived.contains("checkpoint.async") && !*policy.async;
  return fmt::format(
      "{}{} and at the end{}", fmt::join(times, " and "), policy.async.value_or(false) ? " in the background," : ",",
      lacks_memory ? "; training waits for each, because a host has too little free memory for copies" : "");
}

}  // namespace

void announce(Run& run) {
  const Resolved& resolved = run.resolved;
  const Plan& plan = run.plan;
  collectively(run.control, [&] {
    if (run.world.rank() == 0)
      write_run_files(resolved, run.folder.identity, run.world, run.algorithms, run.engine->memory_plans());
  });
  if (run.world.rank() != 0) return;
  const auto say = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    run.log.say(fmt::format(format, std::forward<Args>(args)...));
  };
  say("ranks: {} ({})", run.world.size(), run.world.info().source);
  say("ltrain {} ({}), {}", version(), commit(), built_with());
  const Device device = run.device();
  say("devices: {} x {}", run.world.size(),
      device.type == DeviceType::cuda ? device::cuda::name(device.index) : to_string(device));
  if (device.type == DeviceType::cpu && run.world.size() > 1 && !run.world.over_mpi())
    say("without MPI, tensors pass over TCP through rank 0; mpirun is faster");
  say("threads: {} a rank ({})", run.world.threads().count, run.world.threads().reason);
  if (device.type == DeviceType::cuda) say("algorithms: {}", description_of(run.algorithms));
  if (const std::string& differences = run.algorithms.differences; !differences.empty())
    say("warning: the ranks do not compute equal bits: {}", differences);
  say("model: {}, {} parameters, of which a rank holds {} and optimizer state of {}; {} tokens a step",
      config::facts_of(run.model, resolved).name, recorder::short_count(static_cast<double>(plan.parameters)),
      recorder::short_count(plan.parameters_held), recorder::short_count(plan.parameters_optimized),
      plan.tokens_per_step);
  say("strategy: {}{}, recompute {}, {}{}; memory predicted {:.3f} GiB per rank",
      config::name_of(resolved.parallel.strategy),
      resolved.parallel.shard_size > 0 && resolved.parallel.shard_size < run.world.size()
          ? fmt::format(", shard groups of {}", resolved.parallel.shard_size)
          : "",
      config::name_of(resolved.parallel.recompute), dtype_of(resolved),
      resolved.parallel.deterministic == Determinism::off  ? ""
      : resolved.parallel.deterministic == Determinism::on ? ", deterministic"
                                                           : ", elastic",
      static_cast<double>(plan.peak_bytes) / (1 << 30));
  if (is_elastic(resolved.config)) {
    const BatchShape shape = run.engine->batch_shape();
    say("deterministic: elastic; {}{}", ranks_of_same_bits(shape),
        device.type == DeviceType::cpu
            ? fmt::format(", with {} a rank", recorder::counted(run.world.threads().count, "thread"))
            : "");
    const auto batch = resolved.config.origins.find("train.global_batch");
    if (batch != resolved.config.origins.end() && batch->second == config::kFromCheckpoint) {
      const Size given = resolved.given_accum;
      say("global batch: {} (as in the checkpoint), so accum {} on {}{}", shape.global_samples(), shape.accum,
          recorder::counted(shape.ranks, "rank"),
          given == TrainConfig().accum || given == shape.accum ? ""
                                                               : fmt::format("; train.accum={} is not used", given));
    }
  }
  if (config::has_own_optimizers(resolved.config)) {
    say("optimizer: {} of the program", resolved.config.optim.name.substr(config::kOwnOptimizers.size()));
  }
  if (resolved.own_schedule) say("learning rate: by a schedule of the program");
  Size trained = 0;
  const std::vector<OptimizerGroupUse> groups = run.engine->optimizer_groups();
  for (const OptimizerGroupUse& use : groups) {
    trained += use.elements;
    if (groups.size() == 1 || use.tensors == 0) continue;
    say("group {}: {}, learning rate x {}: {}, {} elements", use.group->match, use.group->optimizer.name,
        use.group->lr_scale, recorder::counted(use.tensors, "tensor"), use.elements);
  }
  for (const OptimGroupConfig& group : resolved.config.optim.groups) {
    const auto decayed = [&](const OptimizerGroupUse& use) {
      return use.group->match == group.match && use.decayed > 0;
    };
    if (group.weight_decay <= 0 || std::ranges::any_of(groups, decayed)) continue;
    say("warning: optim.groups: \"{}\": weight_decay {} acts on none of its tensors: they have one dimension",
        group.match, group.weight_decay);
  }
  if (trained < plan.parameters) say("frozen: {} of {} parameters", plan.parameters - trained, plan.parameters);
  if (const std::string memory = run.engine->peer_memory(); !memory.empty()) say("peer memory: {}", memory);
  const bool has_tf32 = device.type == DeviceType::cuda && device::cuda::compute_capability(device.index) >= 80;
  if (has_tf32 && resolved.precision == Precision::f32 && !resolved.step.tf32) {
    say("hint: f32 without TF32 leaves the tensor cores idle; --train.tf32=true made a step of gpt2-124m 2.6 times as "
        "fast on an H200, --train.dtype=bf16 more");
  }
  say("run folder: {}", resolved.run.dir);
  say("checkpoints: {}", saves_of(resolved));
  say("run: {}{}", run.folder.identity.id,
      run.folder.identity.parent.empty() ? "" : ", begun from " + run.folder.identity.parent);
  if (run.folder.identity.is_new && !run.folder.identity.copied_from.empty()) {
    say("this folder is a copy of run {}; it continues as a new run", run.folder.identity.parent);
  }
  if (!run.folder.little_space.empty()) say("warning: {}", run.folder.little_space);
  if (run.lost_timeline && resolved.checkpoint.memory_every > 0) {
    say("warning: copies in memory: none in this start, because run.json cannot record its timeline; a restart "
        "resumes from the disk");
  }
  for (const std::string& line : run.from.passed_over) say("passed over: {}", line);
  const checkpoint::Loaded* const resumed = checkpoint_of(run.from.start);
  const bool from_memory = std::holds_alternative<FromMemory>(run.from.start);
  if (!run.folder.starting_over.empty()) say("{}", run.folder.starting_over);
  if (!run.from.weights.empty())
    say("{} weights from {}", run.from.base_digest.empty() ? "initial" : "base", run.from.weights);
  if (!resolved.own_schedule && resolved.steps() > 0 && resolved.schedule.warmup >= resolved.steps()) {
    say("warning: optim.warmup {} is not below train.steps {}: the learning rate rises to the end",
        resolved.schedule.warmup, resolved.steps());
  }
  if (run.data.loader != nullptr) {
    const Size samples_a_step = run.engine->batch_shape().global_samples();
    for (const std::string& line :
         data_warnings(resolved, *run.data.loader, samples_a_step, run.steps_done(), run.engine->samples_done())) {
      say("warning: {}", line);
    }
  }
  if (from_memory) say("resuming from memory of the hosts at step {}", run.steps_done() + 1);
  if (resumed != nullptr) {
    say("resuming from {} at step {}", resumed->folder, run.steps_done() + 1);
    for (const std::string& line : changes_since(*resumed, run)) say("{}", line);
    if (begins_data(run.from.start))
      say("{}: other samples than those of the checkpoint, read from the first one on", resolved.data.key);
  }
  if (resumed != nullptr || from_memory) {
    if (const std::string bits = bits_after_resume(run); !bits.empty()) say("{}", bits);
  }

  using Json = nlohmann::ordered_json;
  Json start_seconds;
  std::string start_text;
  double start_total = 0;
  for (const StartStage& stage : run.start_stages) {
    start_seconds[stage.name] = stage.seconds;
    start_text += fmt::format("{}{} {:.2f}", start_text.empty() ? "" : ", ", stage.name, stage.seconds);
    start_total += stage.seconds;
  }
  say("opened in {:.2f} s: {}", start_total, start_text);
  Json ledger;
  for (const MemoryOwner owner : planner::owners_shown(plan.ledger))
    ledger[planner::name_of(owner)] = plan.ledger.of(owner);
  run.log.start({{"event", "start"},
                 {"step", run.steps_done()},
                 {"run", run.folder.identity.id},
                 {"version", version()},
                 {"commit", commit()},
                 {"ranks", run.world.size()},
                 {"model", config::facts_of(run.model, resolved).name},
                 {"strategy", config::name_of(resolved.parallel.strategy)},
                 {"shard_size", resolved.parallel.shard_size},
                 {"recompute", config::name_of(resolved.parallel.recompute)},
                 {"recompute_every", resolved.parallel.recompute_every},
                 {"dtype", config::name_of(resolved.precision)},
                 {"reduce_dtype", config::name_of(resolved.parallel.reduce_dtype)},
                 {"micro_batch", resolved.step.micro_batch},
                 {"accum", resolved.step.accum},
                 {"seq", resolved.step.seq},
                 {"parameters", plan.parameters},
                 {"flops_per_token", plan.flops_per_token},
                 {"tokens_per_step", plan.tokens_per_step},
                 {"predicted_peak_bytes", plan.peak_bytes},
                 {"ledger", ledger},
                 {"start_seconds", start_seconds},
                 {"resumed_from", from_memory          ? Json("memory")
                                  : resumed != nullptr ? Json(resumed->folder)
                                                       : Json(nullptr)}});
}

}  // namespace lt::run
