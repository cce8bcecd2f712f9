// A training run from its folder to its last checkpoint.
#include "libtrain/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "libtrain/checkpoint.h"
#include "libtrain/data.h"
#include "libtrain/error.h"
#include "libtrain/generate.h"
#include "libtrain/planner.h"
#include "libtrain/record.h"
#include "libtrain/version.h"
#include "train/engine_checkpoint.h"
#include "train/run_folder.h"
#include "train/run_log.h"

namespace lt {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Adds times and peaks of all ranks to this rank's record.
void gather_ranks(StepRecord& record, const Group& control) {
  const auto ranks = control.all_gather_bytes(fmt::format("{:a} {}", record.step_ms, record.memory_peak_bytes));
  record.step_ms_min = record.step_ms_max = record.step_ms;
  double sum = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    char* rest = nullptr;
    const double ms = std::strtod(ranks[r].c_str(), &rest);
    sum += ms;
    if (ms > record.step_ms_max) record.step_ms_max = ms, record.slowest_rank = static_cast<int>(r);
    record.step_ms_min = std::min(record.step_ms_min, ms);
    record.memory_peak_bytes = std::max<Size>(record.memory_peak_bytes, std::strtoll(rest, nullptr, 10));
  }
  record.step_ms_mean = sum / static_cast<double>(ranks.size());
}

class TrainingRun {
 public:
  TrainingRun(const Config& config, const World& world, const std::string& command)
      : config_(config),
        world_(world),
        control_(world.group().duplicate("trainer")),
        model_(nn::make_transformer(model_spec(config))),
        schedule_(schedule_options(config)) {
    open(command);
  }

  void run() {
    if (steps_done() >= config_.train.steps && !(config_.train.steps == 0 && start_.checkpoint.empty())) {
      log_.say(fmt::format("complete: {} steps are done in {}, train.steps is {}", steps_done(), config_.run.dir, config_.train.steps));
      return;
    }
    announce();
    const Clock::time_point begin = Clock::now();
    clock_.take();
    PartClock::set_current(&clock_);
    std::string reason = "steps";
    while (steps_done() < config_.train.steps) {
      step(begin);
      const Size n = steps_done();
      if (is_due(config_.train.eval_every, n)) evaluate();
      if (is_due(config_.train.sample_every, n)) sample();
      if (out_of_time(begin)) {
        reason = "max_minutes";
        break;
      }
      if (is_due(config_.checkpoint.every, n) && n < config_.train.steps) save();
    }
    PartClock::set_current(nullptr);
    save();
    log_.event({{"event", "end"}, {"step", steps_done()}, {"reason", reason}, {"seconds", seconds_since(begin)}});
    log_.say(fmt::format("done: {} steps in {} ({}), {}", steps_done(), short_duration(seconds_since(begin)), reason, config_.run.dir));
  }

 private:
  Size steps_done() const { return engine_->steps_done(); }
  Device device() const { return engine_->options().device; }
  static bool is_due(Size every, Size step) { return every > 0 && step % every == 0; }

  // Everything that can be refused is refused here, before the first step, and once for all ranks.
  void open(const std::string& command) {
    const BatchShape shape{config_.train.micro_batch, config_.train.accum, config_.train.seq, world_.rank(), world_.size()};
    const TokenFormat format = config_.data.format == "raw16" ? TokenFormat::raw16 : TokenFormat::automatic;
    const auto loader = [&](const std::vector<std::string>& files, const BatchShape& batch, bool shuffle) {
      return std::make_unique<TokenLoader>(
          files, batch, DataOptions{config_.data.seed, shuffle, format, model_->spec().vocab});
    };
    collectively(control_, [&] {
      if (config_.train.steps > 0 && config_.data.train.empty()) {
        throw UsageError("config", "data.train: expected token files, got none", "make them with: ltrain prepare --input FILE --tokenizer byte --out data");
      }
      if (!config_.data.train.empty()) data_ = loader(config_.data.train, shape, config_.data.shuffle);
      if (config_.train.eval_every > 0) {
        if (config_.data.val.empty()) throw UsageError("config", "data.val: expected token files with train.eval_every, got none");
        validation_ = loader(config_.data.val, {shape.micro_batch, 1, shape.seq, shape.rank, shape.ranks}, false);
      }
      load_tokenizer();
    });
    collectively(control_, [&] {
      engine_ = std::make_unique<Engine>(*model_, world_.group(), parallel_options(config_), adamw_options(config_),
                                         step_options(config_));
    });
    collectively(control_, [&] {
      if (world_.rank() != 0) return;
      start_ = open_run_folder(config_);
      write_run_files(config_, world_, command);
      log_.open(config_.run.dir);
    });
    start_.checkpoint = control_.broadcast_bytes(start_.checkpoint, 0);
    if (!start_.checkpoint.empty()) {
      load_engine(*engine_, start_.checkpoint, control_);
    } else if (!config_.model.from.empty()) {
      load_initial_weights();
    }
    reset_memory_peak(device());
    first_step_ = steps_done() + 1;
    if (!start_.checkpoint.empty()) last_saved_ = steps_done();
  }

  // The tokenizer of the training data, for samples and to be kept in checkpoints.
  void load_tokenizer() {
    if (!config_.data.train.empty()) {
      const auto path = std::filesystem::path(config_.data.train[0]).parent_path() / "tokenizer.json";
      if (std::filesystem::exists(path)) tokenizer_ = make_tokenizer(path.string());
    }
    if (config_.train.sample_every > 0 && tokenizer_ == nullptr) {
      throw UsageError("config", "train.sample_every: expected a tokenizer.json beside data.train, found none");
    }
  }

  void load_initial_weights() {
    collectively(control_, [&] {
      const auto found = checkpoint::find_newest(config_.model.from, nullptr, true);
      if (!found) {
        throw DataError("checkpoint", "model.from " + config_.model.from + ": no valid checkpoint here",
                        "model.from takes a step's, a checkpoints or a run's folder");
      }
      ShardMap masters = engine_->shard_map();
      std::erase_if(masters.needed, [](const StateRange& range) { return range.kind != StateKind::master; });
      checkpoint::load(*found, masters);
    });
    engine_->parameters_changed();
  }

  void announce() {
    const Plan plan = make_plan(config_, world_.size());
    predicted_peak_ = plan.peak_bytes;
    if (world_.rank() != 0) return;
    const auto gib = [](double bytes) { return fmt::format("{:.3f} GiB", bytes / (1 << 30)); };
    const std::string hybrid = config_.parallel.shard_size > 0 ? fmt::format(", shard groups of {}", config_.parallel.shard_size) : "";
    log_.say(fmt::format("ranks: {} ({})", world_.size(), world_.info().source));
    log_.say(fmt::format("ltrain {} ({}), {}", version(), commit(), built_with()));
    log_.say(fmt::format("model: {} {} layers x {}, {} parameters, optimizer state of {} on each rank; {} tokens a step",
                         model_->spec().family, model_->spec().layers, model_->spec().width,
                         short_count(static_cast<double>(plan.parameters)), short_count(plan.parameters_optimized), plan.tokens_per_step));
    log_.say(fmt::format("strategy: {}{}, recompute {}, {}{}; memory predicted {} per rank", config_.parallel.strategy, hybrid,
                         config_.parallel.recompute, config_.train.dtype, config_.train.deterministic ? ", deterministic" : "",
                         gib(static_cast<double>(plan.peak_bytes))));
    log_.say(fmt::format("run folder: {}", config_.run.dir));
    for (const std::string& line : split_lines(start_.notes)) log_.say("passed over: " + line);
    if (!start_.checkpoint.empty()) log_.say(fmt::format("resuming from {} at step {}", start_.checkpoint, steps_done() + 1));

    Json ledger;
    for (std::size_t i = 0; i < kMemoryOwners; ++i) ledger[std::string(kMemoryOwnerNames[i])] = plan.ledger.by_owner[i];
    log_.event({{"event", "start"},
                {"step", steps_done()},
                {"version", version()},
                {"commit", commit()},
                {"ranks", world_.size()},
                {"strategy", config_.parallel.strategy},
                {"parameters", plan.parameters},
                {"flops_per_token", plan.flops_per_token},
                {"tokens_per_step", plan.tokens_per_step},
                {"predicted_peak_bytes", plan.peak_bytes},
                {"ledger", ledger},
                {"resumed_from", start_.checkpoint.empty() ? Json(nullptr) : Json(start_.checkpoint)}});
  }

  void step(Clock::time_point begin) {
    const double lr = schedule_.at(steps_done() + 1);
    engine_->set_learning_rate(lr);
    const StepResult result = [&] {
      const Batch batch = next_batch();
      return engine_->step(batch);
    }();

    StepRecord record;
    record.loss = result.loss(), record.grad_norm = result.norm();
    record.step = steps_done(), record.steps = config_.train.steps, record.lr = lr;
    record.tokens = engine_->batch_shape().global_tokens();
    record.breakdown_ms = clock_.take();
    for (const double ms : record.breakdown_ms) record.step_ms += ms;
    record.tokens_per_s = static_cast<double>(record.tokens) / record.step_ms * 1e3;
    record.tokens_per_s_per_rank = record.tokens_per_s / world_.size();
    record.memory_peak_bytes = memory_peak(device()).total;
    record.memory_outside_bytes = process_resident_bytes() - memory_live(device()).total;
    record.memory_total_bytes = machine_memory_bytes();
    record.comm = take_comm_totals();
    gather_ranks(record, control_);
    log_.row(to_json_line(record));
    mean_step_s_ = mean_step_s_ == 0 ? record.step_ms / 1e3 : 0.9 * mean_step_s_ + 0.1 * record.step_ms / 1e3;
    if (record.step == first_step_ || is_due(config_.record.every, record.step) || record.step == record.steps) {
      log_.say(console_line(record, eta_s(begin)));
    }
    if (!std::isfinite(record.loss) || !std::isfinite(record.grad_norm)) {
      log_.event({{"event", "skip"}, {"step", record.step}, {"reason", "non-finite loss or gradient"}});
      NonFiniteError error(fmt::format("step {}: loss {}, gradient norm {}: expected finite numbers; {}", record.step,
                                       std::abs(record.loss), record.grad_norm,
                                       last_saved_ < 0 ? "nothing was saved" : fmt::format("step {} was saved last", last_saved_)),
                           "a smaller optim.lr or more optim.warmup");
      error.set_shared(0);
      throw error;
    }
  }

  Batch next_batch() {
    const PartScope part(Part::data);
    const MemoryScope owner(MemoryOwner::data);
    data_->seek(engine_->samples_done());
    return data_->next();
  }

  double eta_s(Clock::time_point begin) const {
    const double by_steps = static_cast<double>(config_.train.steps - steps_done()) * mean_step_s_;
    if (config_.train.max_minutes <= 0) return by_steps;
    return std::min(by_steps, config_.train.max_minutes * 60 - seconds_since(begin));
  }

  bool out_of_time(Clock::time_point begin) const {
    if (config_.train.max_minutes <= 0) return false;
    // The ranks' clocks differ; rank 0 decides.
    return control_.broadcast_bytes(seconds_since(begin) >= config_.train.max_minutes * 60 ? "stop" : "go", 0) == "stop";
  }

  void evaluate() {
    const BatchShape shape = engine_->batch_shape();
    const Size whole = std::max<Size>(1, validation_->samples_per_epoch() / (shape.micro_batch * shape.ranks));
    const Size batches = std::min(config_.train.eval_steps, whole);
    validation_->seek(0);
    double sum = 0;
    for (Size i = 0; i < batches; ++i) {
      const MemoryScope owner(MemoryOwner::data);
      const Batch batch = validation_->next();
      const MemoryScope activations(MemoryOwner::activations);
      sum += engine_->evaluate(batch).item();
    }
    const double loss = sum / static_cast<double>(batches);
    log_.event({{"event", "eval"}, {"step", steps_done()}, {"loss", loss}, {"batches", batches},
                {"tokens", batches * shape.micro_batch * shape.ranks * shape.seq}});
    log_.say(fmt::format("eval {:>6} | loss {:.4f}", steps_done(), loss));
    leave_out_of_step_time();
  }

  void sample() {
    engine_->with_parameters([&] {
      if (world_.rank() != 0) return;
      std::vector<std::uint32_t> tokens;
      generate(*model_, tokenizer_->encode("\n"), {.tokens = 256, .temperature = 0.8, .seed = config_.train.seed},
               [&](std::uint32_t token) { tokens.push_back(token); });
      std::filesystem::create_directories(config_.run.dir + "/samples");
      std::ofstream(fmt::format("{}/samples/step-{:08}.txt", config_.run.dir, steps_done())) << tokenizer_->decode(tokens) << "\n";
    });
    leave_out_of_step_time();
  }

  // Evaluation and samples are no part of a step.
  void leave_out_of_step_time() {
    clock_.take();
    take_comm_totals();
  }

  void save() {
    if (last_saved_ == steps_done()) return;
    const PartScope part(Part::checkpoint);
    const Clock::time_point begin = Clock::now();
    collectively(control_, [&] { log_.sync(); });
    const std::string config = to_toml(config_);
    checkpoint::RunState state;
    state.step = steps_done(), state.samples = engine_->samples_done(), state.seed = config_.train.seed;
    state.config = config, state.config_hash = config_hash(config_);
    state.model = to_json(model_->spec(), config_.train.seq);
    state.tokenizer = tokenizer_ != nullptr ? tokenizer_->to_json() : "";
    const std::string path = checkpoint::save(config_.checkpoint.dir, engine_->shard_map(), state, control_,
                                              static_cast<int>(config_.checkpoint.keep));
    last_saved_ = steps_done();
    log_.event({{"event", "checkpoint"}, {"step", steps_done()}, {"path", path}, {"seconds", seconds_since(begin)}});
    log_.say(fmt::format("saved {}", path));
  }

  Config config_;
  const World& world_;
  Group control_;  // times, decisions and checkpoints never travel with the gradients
  std::unique_ptr<nn::Transformer> model_;
  Schedule schedule_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TokenLoader> data_, validation_;
  std::unique_ptr<Tokenizer> tokenizer_;
  RunStart start_;
  RunLog log_;
  PartClock clock_;
  double mean_step_s_ = 0;
  Size predicted_peak_ = 0, last_saved_ = -1, first_step_ = 1;
};

}  // namespace

void train(const Config& given, const World& world, const std::string& command) {
  Config config;
  collectively(world.group(), [&] { config = resolve(given); });
  TrainingRun(config, world, command).run();
}

}  // namespace lt
