// Opens a run in stages: checks, loaders, engine, folder, state.
#include "run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "checkpoints/format/find.h"
#include "checkpoints/format/load.h"
#include "comm/value_exchange.h"
#include "io/paths.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "libtrain/plan/planner.h"
#include "plan/device_model.h"
#include "plan/run_batches.h"
#include "record/system_memory.h"
#include "run/data_tokenizers.h"
#include "run/rank_device.h"
#include "run/run_files.h"
#include "run/same_data.h"
#include "save/checkpoint_space.h"
#include "save/memory_checkpoints.h"

namespace lt::run {
namespace {

void require_memory(const Run& run, Device device) {
  const Size ranks = run.world.info().local_size;
  const auto gib = [](Size size) { return static_cast<double>(size) / (1 << 30); };
  const auto require = [&](const std::string& place, Size ranks_there, Size bytes_there, Size bytes_of_rank,
                           const char* hint) {
    if (bytes_of_rank <= bytes_there / ranks_there) return;
    throw UsageError(
        "config",
        fmt::format("memory: expected at most {:.3f} GiB on {}, {} rank{} of {:.3f} GiB would take {:.3f} GiB",
                    gib(bytes_there), place, ranks_there, ranks_there == 1 ? "" : "s", gib(bytes_of_rank),
                    static_cast<double>(ranks_there) * gib(bytes_of_rank)),
        hint);
  };
  constexpr const char* kSmaller =
      "a smaller train.micro_batch, --parallel.strategy=zero3, --parallel.recompute=full; `plan` says what each takes";
  if (device.type == DeviceType::cpu) {
    return require("this host", ranks, recorder::system_memory_bytes(kCpu), run.plan.peak_bytes + run.plan.host_bytes,
                   kSmaller);
  }
  const Size taken = recorder::system_bytes_in_use(device) - memory_live(device).total;  // by CUDA and other programs
  require(to_string(device), 1, recorder::system_memory_bytes(device) - taken, run.plan.peak_bytes, kSmaller);
  require("this host", ranks, recorder::system_memory_bytes(kCpu), run.plan.host_bytes,
          "--checkpoint.async=false, --checkpoint.memory_every=0");
}

// Decides checkpoint.async where it is auto: true if the copies of the state take at most half of the memory that is
// free on each host, after what the run needs. The other half stays for the files that the run reads and writes.
void decide_background_saves(Run& run) {
  std::optional<bool>& async = run.resolved.checkpoint.async;
  if (async) return;
  const Plan& plan = run.plan;
  const Size needed = plan.host_bytes + (run.device() == kCpu ? plan.peak_bytes : 0);
  const Size free = recorder::system_memory_available() / run.world.info().local_size - needed;
  const std::vector<int> fits = comm::gather_values(run.control, plan.host_bytes_if_free <= free / 2 ? 1 : 0);
  async = std::ranges::count(fits, 0) == 0;
  run.resolved.config.checkpoint.async = async;
  run.resolved.config.derived.insert("checkpoint.async");
}

// Neither the samples nor their order, which depends on the number of tokens, may change within a run.
void require_same_data(const Run& run) {
  const checkpoint::Loaded* const loaded = checkpoint_of(run.from.start);
  const std::string from = loaded == nullptr ? "the copy in memory" : loaded->folder;
  const checkpoint::RunState& state = state_of(run.from.start);
  const Size before = state.data_tokens, now = run.data.batches == nullptr ? 0 : run.data.batches->tokens();
  if (before == 0 || now == 0) return;
  std::optional<DataDifference> difference;
  if (before != now) {
    difference = {fmt::format("files of {} tokens", before), std::to_string(now)};
  } else {
    difference = difference_of(run.data.files, {state.data_files, run.folder.identity.data});
  }
  if (!difference) return;
  throw UsageError("config",
                   fmt::format("{}: expected {}, as when {} was saved, found {}", run.resolved.data.key,
                               difference->expected, from, difference->found),
                   "another --run.dir begins a new run, with --checkpoint.resume=FOLDER from a checkpoint of this one");
}

// The data must be of the checkpoint's tokenizer. A run that goes on without a tokenizer.json beside its data keeps the
// checkpoint's.
void require_same_tokenizer(Run& run) {
  const checkpoint::RunState& state = state_of(run.from.start);
  if (state.tokenizer.empty()) return;
  if (run.data.tokenizer_text.empty() && !run.begins_from_other_run()) {
    run.data.tokenizer_text = state.tokenizer, run.data.tokenizer_files = state.tokenizer_files;
    return;
  }
  const checkpoint::Loaded* const loaded = checkpoint_of(run.from.start);
  const std::string& step = loaded != nullptr ? loaded->folder : checkpoint::newest_valid(run.folder.candidates)->path;
  require_tokenizer({"the checkpoint", step + "/manifest.json", state.tokenizer}, tokenizers_of_data(run.resolved),
                    TokenizerMatch::extended);
}

}  // namespace

Run::Run(Resolved resolved_, const World& world, nn::Model& model, BatchSource* given)
    : resolved(std::move(resolved_)), world(world), control(world.group().duplicate("trainer")), model(model) {
  stage_done("model");
  EngineOptions options;
  collectively(control, [&] {
    options = step_options_of_rank(resolved, world);
    plan = make_plan(model, resolved, world.size(), PlanMachine{.ranks_per_node = world.info().local_size});
  });
  stage_done("plan");
  data = open_data(resolved, world, control, model, given);
  options.ignored_targets = data.batches != nullptr && data.batches->has_ignored_targets();
  options.initial_weights = false;  // find_start() draws them if none are loaded
  stage_done("data");
  collectively(control, [&] {
    Stream::compute(options.device);  // initialises the device
    require_memory(*this, options.device);
  });
  algorithms = share_algorithms(resolved.config.train.algorithms, control, options.device);
  stage_done("device");
  if (resolved.record.profile_steps > 0) {
    collectively(control, [&] { kernels = kernel_profile_for(resolved.record.profile_steps, options.device); });
    stage_done("profiler");
  }
  collectively(control, [&] {
    const Group group = group_for(world.group(), resolved.backend, options.device);
    stage_done("groups");
    engine = std::make_unique<Engine>(model, group, resolved.parallel, resolved.optimizers, options);
    stage_done("engine");
    const planner::RunBatches shapes = planner::batches_on_meta(model, engine->batch_shape(), resolved);
    engine->rehearse(shapes.step, shapes.evaluation);
    stage_done("rehearsal");
  });
  decide_background_saves(*this);
  collectively(control, [&] {
    if (world.rank() == 0) folder = examine_run_folder(resolved, data.files);
  });
  from = find_start(resolved, control, *engine, folder, data.files);
  if (!begins_from_other_run()) eval_loss = state_of(from.start).eval_loss;
  const Size bytes = saver::checkpoint_bytes(*engine, control);
  bool has_timeline = true;
  collectively(control, [&] {
    if (world.rank() != 0) return;
    if (!begins_from_other_run()) require_same_data(*this);
    require_same_tokenizer(*this);
    folder.identity.data = digest_of(data.files);
    folder.identity.checkpoints = io::canonical_path(resolved.checkpoint.dir);
    open_run_folder(resolved, folder, from.start, bytes);
    if (!std::holds_alternative<Complete>(from.start)) {
      const bool is_recorded = write_run_json(resolved.run.dir, folder.identity);
      has_timeline = is_recorded || std::holds_alternative<FromMemory>(from.start);  // which keeps the timeline
    }
    log.open(resolved.run.dir, resolved.console);
    const std::string table = resolved.run.dir + "/metrics.csv", events = resolved.run.dir + "/tb";
    if (resolved.record.csv) log.add(table, recorder::make_csv_sink(table));
    if (resolved.record.tensorboard) log.add(events, recorder::make_tensorboard_sink(events, steps_done() + 1));
  });
  for (std::string* text : {&folder.identity.id, &folder.identity.parent, &folder.identity.timeline}) {
    *text = control.broadcast_bytes(*text, 0);
  }
  // run.json still names the previous timeline, so a later start would load its stale copies and ignore this start's.
  // Remove them and make none.
  lost_timeline = !comm::broadcast_value(control, has_timeline);
  if (lost_timeline) saver::remove_memory(control, folder.identity.id);
  engine->set_run({folder.identity.id, folder.identity.parent});
  dense_flops_ = planner::dense_flops_of(resolved.precision, dense_tflops_bf16(device()));
  device_memory_bytes = recorder::system_memory_bytes(device());
  stage_done("state");
  reset_memory_peak(device());
}

void Run::stage_done(const char* stage) {
  const auto now = std::chrono::steady_clock::now();
  start_stages.push_back({stage, std::chrono::duration<double>(now - stage_begin_).count()});
  stage_begin_ = now;
}

// FLOPs per second, counted as in docs/reference/metrics.md, over the data sheet's dense peak. Known for bf16 and f16
// only.
double Run::mfu(double tokens_per_s_per_rank) const {
  return dense_flops_ > 0 && plan.flops_per_token > 0 ? tokens_per_s_per_rank * plan.flops_per_token / dense_flops_
                                                      : -1;
}

}  // namespace lt::run
