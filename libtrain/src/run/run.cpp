// Opens a run: checks, loaders, engine, folder, state.
#include "run/run.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "comm/value_exchange.h"
#include "config/base_model.h"
#include "config/names.h"
#include "io/paths.h"
#include "io/presence.h"
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
#include "run/training_data.h"
#include "save/checkpoint_room.h"
#include "save/engine_checkpoint.h"
#include "save/memory_checkpoints.h"
#include "tokenizer/tokenizer_files.h"

namespace lt::run {

Run::Run(Resolved resolved_, const World& world, nn::Model& model, BatchSource* given)
    : resolved(std::move(resolved_)),
      world(world),
      control(world.group().duplicate("trainer")),
      model(model),
      batches(given) {
  started("model");
  StepOptions options;
  collectively(control, [&] {
    options = step_options_of_rank(resolved, world);
    plan = make_plan(model, resolved, world.size(), PlanMachine{.ranks_per_node = world.info().local_size});
  });
  started("plan");
  collectively(control, [&] { open_data(); });
  if (data != nullptr) data_files = identify_files(resolved.data.key, *data, world.info(), control);
  for (const ValidationSet& set : validation) identify_files("data.val", *set.loader, world.info(), control);
  options.ignored_targets = batches != nullptr && batches->has_ignored_targets();
  options.initial_weights = false;  // find_start() draws them if none are loaded
  started("data");
  collectively(control, [&] {
    Stream::compute(options.device);  // initialises the device
    require_memory(options.device);
  });
  started("device");
  if (resolved.record.profile_steps > 0) {
    collectively(control, [&] { kernels = kernel_profile_for(resolved, options.device); });
    started("profiler");
  }
  collectively(control, [&] {
    const Group group = group_for(world.group(), resolved, options.device);
    started("groups");
    engine = std::make_unique<Engine>(model, group, resolved.parallel, resolved.optimizers, options);
    started("engine");
    const planner::RunBatches shapes = planner::batches_on_meta(model, engine->batch_shape(), resolved);
    engine->rehearse(shapes.step, shapes.evaluation);
    started("rehearsal");
  });
  collectively(control, [&] {
    if (world.rank() == 0) folder = examine_run_folder(resolved, data_files);
  });
  start = find_start();
  const Size bytes = saver::checkpoint_bytes(*engine, control);
  bool has_timeline = true;
  collectively(control, [&] {
    if (world.rank() != 0) return;
    if (continues_itself()) require_same_data();
    require_same_tokenizer();
    folder.identity.data = digest_of(data_files);
    folder.identity.checkpoints = io::canonical_path(resolved.checkpoint.dir);
    open_run_folder(resolved, folder, start, bytes);
    if (!std::holds_alternative<Complete>(start)) {
      const bool is_recorded = write_run_json(resolved.run.dir, folder.identity);
      has_timeline = is_recorded || std::holds_alternative<FromMemory>(start);  // which keeps the timeline
    }
    log.open(resolved.run.dir);
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
  started("state");
  reset_memory_peak(device());
}

void Run::started(const char* stage) {
  const auto now = std::chrono::steady_clock::now();
  start_stages.push_back({stage, std::chrono::duration<double>(now - stage_begin_).count()});
  stage_begin_ = now;
}

// FLOPs per second, counted as in docs/metrics.md, over the data sheet's dense peak. Known for bf16 and f16 only.
double Run::mfu(double tokens_per_s_per_rank) const {
  return dense_flops_ > 0 && plan.flops_per_token > 0 ? tokens_per_s_per_rank * plan.flops_per_token / dense_flops_
                                                      : -1;
}

void Run::require_memory(Device device) const {
  const Size ranks = world.info().local_size;
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
    return require("this host", ranks, recorder::system_memory_bytes(kCpu), plan.peak_bytes + plan.host_bytes,
                   kSmaller);
  }
  const Size taken = recorder::system_bytes_in_use(device) - memory_live(device).total;  // by CUDA and other programs
  require(to_string(device), 1, recorder::system_memory_bytes(device) - taken, plan.peak_bytes, kSmaller);
  require("this host", ranks, recorder::system_memory_bytes(kCpu), plan.host_bytes,
          "--checkpoint.async=false, --checkpoint.memory_every=0");
}

void Run::open_data() {
  const StepOptions& step = resolved.step;
  const std::vector<DataSource>& sources = resolved.data.sources;
  if (batches != nullptr && !sources.empty()) {
    throw UsageError("config", resolved.data.key, "none beside the program's own batches", "some");
  }
  if (batches != nullptr && resolved.data.documents == Documents::mask) {
    throw UsageError("config", "data.documents", "cross with batches of the program's own", "mask");
  }
  if (batches == nullptr && sources.empty() && resolved.steps() > 0) {
    const std::string& from = resolved.weights.from;
    const bool has_tokenizer = !from.empty() && std::filesystem::exists(from + "/tokenizer.json");
    throw UsageError("config", "data.train", "token files", "none",
                     fmt::format("make them with: ltrain prepare --input FILE --tokenizer {} --out data",
                                 has_tokenizer ? from : "byte"));
  }
  require_token_files(resolved.data);
  if (!sources.empty()) {
    open_tokenizer(folder_of_tokenizer(sources));
    if (world.rank() == 0) {
      const std::vector<NamedTokenizer> all = tokenizers_of_data(resolved);
      if (!all.empty()) require_tokenizer(all.front(), all, TokenizerMatch::same);
    }
  }
  // Before ids are compared with the vocabulary. model.from of a run that goes on may be gone.
  if (world.rank() == 0 && !resolved.weights.from.empty() && !goes_on(resolved)) {
    if (resolved.transformer)
      config::require_same_model(resolved.config);  // else a parameter that differs is named as it is read
    require_tokenizer_of_base(resolved);
  }
  DataOptions options{.vocab = model.facts(step.seq).vocab};
  if (resolved.data.documents == Documents::mask && !sources.empty())
    options.document_end = end_of_documents(resolved.data, tokenizer.get());
  const auto loader = [&](const std::string& key, const std::vector<DataSource>& from, Size accum, bool shuffle) {
    options.shuffle = shuffle;
    return open_loader(resolved.data, key, from, {step.micro_batch, accum, step.seq, world.rank(), world.size()},
                       options);
  };
  if (!sources.empty()) {
    opened_ = loader(resolved.data.key, sources, step.accum, resolved.data.shuffle);
    batches = opened_.get();
  }
  data = dynamic_cast<const TokenLoader*>(batches);
  if (resolved.evaluation.every > 0) {
    if (resolved.data.val.empty()) {
      throw UsageError("config", "data.val", "token files with train.eval_every", "none");
    }
    for (const std::string& files : resolved.data.val) {
      validation.push_back({files, loader("data.val", {{{files}, 1}}, 1, false)});
    }
  }
  if (resolved.sample_every > 0 && tokenizer == nullptr) {
    throw UsageError("config", "train.sample_every",
                     fmt::format("0 without a tokenizer.json beside {}", resolved.data.key),
                     std::to_string(resolved.sample_every));
  }
}

void Run::open_tokenizer(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "tokenizer.json").string();
  if (!io::is_present("data", path)) return;
  tokenizer_text = read_tokenizer(path);
  const bool is_needed = resolved.sample_every > 0 || resolved.data.documents == Documents::mask;
  tokenizer = is_needed ? tokenizer_from_json(tokenizer_text, path) : supported_tokenizer(tokenizer_text, path);
  const bool is_bytes = tokenizer != nullptr && tokenizer->bytes_per_token() == 1;
  if (!is_bytes) tokenizer_files = tokenizer::read_tokenizer_files("data", folder);
}

// Neither the samples nor their order, which depends on the number of tokens, may change within a run.
void Run::require_same_data() const {
  const checkpoint::Loaded* const loaded = checkpoint_of(start);
  const std::string from = loaded == nullptr ? "the copy in memory" : loaded->folder;
  const checkpoint::RunState& state = state_of(start);
  const Size before = state.data_tokens, now = batches == nullptr ? 0 : batches->tokens();
  if (before == 0 || now == 0) return;
  std::optional<DataDifference> difference;
  if (before != now) {
    difference = {fmt::format("files of {} tokens", before), std::to_string(now)};
  } else {
    difference = difference_of(data_files, {state.data_files, folder.identity.data});
  }
  if (!difference) return;
  throw UsageError("config",
                   fmt::format("{}: expected {}, as when {} was saved, found {}", resolved.data.key,
                               difference->expected, from, difference->found),
                   "another --run.dir begins a new run, with --checkpoint.resume=FOLDER from a checkpoint of this one");
}

// The data must be of the checkpoint's tokenizer. A run that goes on without a tokenizer.json beside its data keeps the
// checkpoint's.
void Run::require_same_tokenizer() {
  const checkpoint::RunState& state = state_of(start);
  if (state.tokenizer.empty()) return;
  if (tokenizer_text.empty() && continues_itself()) {
    tokenizer_text = state.tokenizer, tokenizer_files = state.tokenizer_files;
    return;
  }
  const checkpoint::Loaded* const loaded = checkpoint_of(start);
  const std::string& step = loaded != nullptr ? loaded->folder : checkpoint::newest_valid(folder.candidates)->path;
  require_tokenizer({"the checkpoint", step + "/manifest.json", state.tokenizer}, tokenizers_of_data(resolved),
                    TokenizerMatch::extended);
}

}  // namespace lt::run
