// The table of configuration keys. A new key is a member of its section's struct and a row here.
#include "config/config_schema.h"

#include <algorithm>
#include <limits>

#include "config/names.h"
#include "config/optimizer_choices.h"
#include "libtrain/parallel/strategy.h"
#include "nn/model_family.h"
#include "nn/spec_fields.h"

namespace lt::config {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Rule any() { return {-kInfinity, kInfinity}; }
Rule at_least(double low) { return {low, kInfinity}; }
Rule above(double low) { return {low, kInfinity, true}; }
Rule from_0_below_1() { return {0, 1, false, true}; }
Rule text() { return any(); }
Rule text_or_empty() { return {.low = 0, .high = 0, .may_be_empty = true}; }
Rule one_of(std::vector<std::string> choices) { return {.low = 0, .high = 0, .choices = std::move(choices)}; }
template <HasNames T>
Rule named() {
  Rule rule{.low = 0, .high = 0};
  for (const Named<T>& entry : kNames<T>) rule.choices.emplace_back(entry.name);
  for (const Named<T>& entry : kAliases<T>) rule.choices.emplace_back(entry.name);
  return rule;
}
Rule one_of_or_empty(std::vector<std::string> choices) {
  return {.low = 0, .high = 0, .choices = std::move(choices), .may_be_empty = true};
}

// A run of a program with optimizers of its own must be readable by other programs.
Rule optimizer_name() {
  Rule rule = one_of(optimizer_names());
  rule.prefix = kOwnOptimizers;
  return rule;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const nn::Preset& preset : nn::presets()) names.push_back(preset.name);
  return names;
}

std::vector<std::string> family_names(const ModelTable& models) {
  std::vector<std::string> names;
  for (const nn::ModelFamily* family : nn::families()) {
    if (models.transformers) names.emplace_back(family->name);
  }
  for (const ModelRow& row : models.rows) names.push_back(row.name);
  return names;
}

// Chosen by the field's type. A zero means not set.
Rule rule_of(const nn::SpecField& field, const ModelTable& models) {
  if (field.name == "family") return one_of_or_empty(family_names(models));
  if (std::holds_alternative<std::string nn::TransformerSpec::*>(field.member)) return text_or_empty();
  if (std::holds_alternative<Size nn::TransformerSpec::*>(field.member)) return at_least(0);
  if (std::holds_alternative<std::optional<bool> nn::TransformerSpec::*>(field.member)) {
    return named<std::optional<bool>>();
  }
  if (std::holds_alternative<nn::Lora nn::TransformerSpec::*>(field.member)) return any();
  return {0, field.high, false, true};
}

// Adds the keys of TransformerSpec.
void add_spec(std::vector<Key>& keys, const ModelTable& models) {
  for (const nn::SpecField& field : nn::spec_fields()) {
    const auto at = [member = field.member](Config& c) {
      return std::visit([&](auto m) -> Field { return &(c.model.*m); }, member);
    };
    keys.push_back({"model", field.name, at, rule_of(field, models), field.help});
  }
}

Rule rule_of(const ModelField& field) {
  const bool is_text = std::holds_alternative<std::string>(field.fallback);
  const double lowest = std::holds_alternative<Size>(field.fallback) ? 0 : -kInfinity;
  return {.low = std::max(field.low, lowest),
          .high = field.high,
          .choices = field.choices,
          .may_be_empty = is_text && field.choices.empty()};
}

ModelValues& values_of_model(Config& config) { return config.model.own; }
ModelValues& values_of_batches(Config& config) { return config.batches; }

// Adds these fields of the program's rows, each name once.
void add_rows(std::vector<Key>& keys, const ModelTable& models, std::string_view section,
              std::vector<ModelField> ModelRow::*fields, ModelValues& (*values)(Config&)) {
  std::set<std::string_view> added;
  for (const ModelRow& row : models.rows) {
    for (const ModelField& field : row.*fields) {
      if (!added.insert(field.name).second) continue;
      const auto at = [&field, values](Config& c) {
        return std::visit([](auto& value) -> Field { return &value; }, values(c).at(field.name));
      };
      keys.push_back({section, field.name, at, rule_of(field), field.help});
    }
  }
}

// A row. The key's section and name are those of its member.
#define LT_KEY(section, name, rule, help)                                            \
  {                                                                                  \
#section, #name, [](Config & c) -> Field { return &c.section.name; }, rule, help \
  }

}  // namespace

// clang-format off
std::vector<Key> schema(const ModelTable& models) {
  std::vector<Key> keys;
  if (models.transformers) {
    keys = {LT_KEY(model, preset, one_of(preset_names()),
                   "named model shape, which the other keys of [model] override")};
    add_spec(keys, models);
  } else if (!models.rows.empty()) {
    keys = {LT_KEY(model, family, one_of(family_names(models)), "model to train")};
  }
  add_rows(keys, models, "model", &ModelRow::fields, values_of_model);
  const std::vector<Key> weights_and_data = {
    LT_KEY(model, from, text_or_empty(),
           models.transformers
               ? "initial weights: a checkpoint or Hugging Face folder, whose model replaces the preset; empty: random "
                 "from train.seed"
               : "initial weights: a checkpoint; empty: random from train.seed"),
    LT_KEY(model, freeze, any(), "list of patterns for the names of parameters to freeze; * matches any text"),

    LT_KEY(data, train, text(),
           "list of training token files or glob patterns, separated by commas outside the --config file"),
    LT_KEY(data, val, text(), "list of token files for evaluation, given like data.train"),
    LT_KEY(data, sources, any(),
           "list of {files, weight} tables, instead of data.train; outside the --config file, pass "
           "FILES:WEIGHT,FILES:WEIGHT or JSON"),
    LT_KEY(data, documents, named<Documents>(),
           "mask: attention and targets stay within a document, which ends at an end-of-text token, and positions "
           "restart in each; cross: document boundaries are ignored"),
    LT_KEY(data, epochs, at_least(0), "passes over all samples, instead of a number of steps; 0 uses train.steps"),
    LT_KEY(data, seed, at_least(0), "seed of the sample order"),
    LT_KEY(data, shuffle, any(), "shuffle the samples; false reads them in file order"),
    LT_KEY(data, format, named<TokenFormat>(),
           "format of token files; auto: by magic number; raw16: uint16 without a header"),
  };
  const std::vector<Key> others = {
    LT_KEY(parallel, strategy, named<Strategy>(),
           "tensors to shard over the ranks; ddp: none; zero1: optimizer state; zero2: also gradients; zero3, also "
           "named fsdp: also parameters"),
    LT_KEY(parallel, shard_size, at_least(0), "ranks per shard group; 0: all ranks; fewer: hybrid sharding (HSDP)"),
    LT_KEY(parallel, recompute, named<Recompute>(),
           "activations to recompute in the backward pass; selective: norms and activation functions; full: whole "
           "blocks"),
    LT_KEY(parallel, recompute_every, at_least(1), "apply recompute to every n-th block"),
    LT_KEY(parallel, reduce_dtype, named<DType>(), "dtype in which ranks exchange gradients; sums are in f32"),
    LT_KEY(parallel, backend, named<CommBackend>(),
           "library for collectives; auto: nccl on cuda, mpi on cpu; mpi copies through host memory, and uses TCP if "
           "started without MPI"),

    LT_KEY(train, steps, at_least(0), "optimizer steps of the whole run; 0 saves the initial state and exits"),
    LT_KEY(train, max_minutes, at_least(0),
           "minutes of training before saving and stopping with exit code 75, counted from each start; 0: no limit"),
    LT_KEY(train, skip_nonfinite, at_least(0),
           "steps in a row that may go without an update because loss or gradient norm is not finite, before exit "
           "code 5"),
    LT_KEY(train, micro_batch, at_least(1), "samples per forward and backward pass on each rank"),
    LT_KEY(train, accum, at_least(1), "micro-batches per step on each rank (gradient accumulation)"),
    LT_KEY(train, global_batch, at_least(0),
           "samples per step over all ranks; determines accum; 0: ranks x micro_batch x accum, or the checkpoint's "
           "when an elastic run resumes"),
    LT_KEY(train, seq, at_least(0),
           "tokens per sample; 0: what the model says, which is max_seq for a transformer"),
    LT_KEY(train, dtype, named<std::optional<Precision>>(),
           "compute dtype; auto: f32 with tf32, else the checkpoint's on a resume, else bf16 on cuda and f32 on cpu; "
           "fp8: e4m3 matmuls in the linear layers of blocks, bf16 elsewhere"),
    LT_KEY(train, device, named<std::optional<DeviceType>>(),
           "device to train on; auto: cuda if this build supports it and the machine has a GPU, else cpu"),
    LT_KEY(train, seed, at_least(0), "seed of initial weights, dropout and stochastic rounding"),
    LT_KEY(train, deterministic, named<Determinism>(),
           "make losses and weights bit-identical; true: under every strategy at the same rank count; elastic: also at "
           "rank counts 1, 2, 4, ... with the same global batch and micro-batch"),
    LT_KEY(train, algorithms, text_or_empty(),
           "table of matmul algorithms, a file of `bench tune` that rank 0 reads; cuda only; empty: the library's "
           "table"),
    LT_KEY(train, eval_every, at_least(0), "steps between evaluations; 0 disables evaluation"),
    LT_KEY(train, eval_tokens, at_least(0),
           "tokens per evaluation, from the start of data.val, rounded up to whole samples; 0: all of data.val"),
    LT_KEY(train, sample_every, at_least(0), "steps between generated sample texts; 0 disables them"),
    LT_KEY(train, cuda_graph, named<std::optional<bool>>(),
           "run each step as one CUDA graph, with bit-identical results; traced steps and steps during a state copy "
           "run without it; auto: true on cuda unless parallel.backend is mpi"),
    LT_KEY(train, tf32, any(), "round operands of matmuls to TF32; needs dtype f32 on cuda"),
    LT_KEY(train, z_loss, at_least(0),
           "factor of the z-loss, logsumexp(logits)^2, in the training loss; 0 disables it"),
    LT_KEY(train, label_smoothing, from_0_below_1(),
           "share of each target's probability to spread over the vocabulary in the training loss; 0 disables "
           "smoothing"),

    LT_KEY(optim, name, optimizer_name(),
           "optimizer; muon: Muon for the weight matrices of blocks, AdamW for all other parameters"),
    LT_KEY(optim, lr, at_least(0), "peak learning rate, reached at the end of warm-up"),
    LT_KEY(optim, min_lr, any(), "final learning rate, unless schedule is constant; negative: lr / 10"),
    LT_KEY(optim, warmup, at_least(0), "steps of linear learning-rate warm-up"),
    LT_KEY(optim, schedule, named<Decay>(),
           "learning-rate schedule after warm-up; wsd: constant, then a linear decay over the last tenth of the "
           "steps after warm-up"),
    LT_KEY(optim, beta1, from_0_below_1(), "AdamW: decay of the first moment"),
    LT_KEY(optim, beta2, from_0_below_1(), "AdamW: decay of the second moment"),
    LT_KEY(optim, eps, above(0), "AdamW: epsilon added to the denominator"),
    LT_KEY(optim, weight_decay, at_least(0), "decoupled weight decay, for tensors of two or more dimensions only"),
    LT_KEY(optim, momentum, from_0_below_1(), "Muon: decay of the momentum buffer"),
    LT_KEY(optim, clip, at_least(0), "maximum global gradient norm; 0 disables clipping"),
    LT_KEY(optim, state_dtype, named<DType>(),
           "dtype of AdamW's moments and Muon's momentum; bf16 is rounded stochastically"),
    LT_KEY(optim, master, named<std::optional<DType>>(),
           "dtype of master weights; none: update the bf16 weights directly, with stochastic rounding"),
    LT_KEY(optim, ema, from_0_below_1(),
           "decay of a moving average of the weights, for --weights ema of other commands; 0 disables the average"),
    LT_KEY(optim, groups, any(),
           "list of {match, lr_scale, weight_decay, optimizer} tables; outside the --config file, pass JSON"),

    LT_KEY(checkpoint, dir, text_or_empty(), "folder of checkpoints; empty: <run.dir>/checkpoints"),
    LT_KEY(checkpoint, every, at_least(0),
           "steps between checkpoints; 0 disables saves by step; the last step is always saved"),
    LT_KEY(checkpoint, every_minutes, at_least(-1),
           "minutes between checkpoints, in addition to checkpoint.every; 0 disables saves by time; -1: 30 if "
           "checkpoint.every is 0, else 0"),
    LT_KEY(checkpoint, keep, at_least(2), "number of newest checkpoints to keep, at least 2"),
    LT_KEY(checkpoint, keep_every, at_least(0),
           "keep forever each checkpoint whose step is a multiple of this; 0: none"),
    LT_KEY(checkpoint, best, any(), "keep the checkpoint with the lowest evaluation loss; needs train.eval_every"),
    LT_KEY(checkpoint, async, named<std::optional<bool>>(),
           "write checkpoints while training continues; auto: true for the default of 30 minutes if all hosts have "
           "memory for the copies of the state, else false"),
    LT_KEY(checkpoint, memory_every, at_least(0),
           "steps between copies of the state to host memory (/dev/shm); 0 disables copies"),
    LT_KEY(checkpoint, resume, text(),
           "state to resume: auto (the run's newest valid state, if any), never, or a checkpoint, a folder of "
           "checkpoints or a run folder"),

    LT_KEY(record, every, at_least(1), "steps between console lines"),
    LT_KEY(record, trace_steps, at_least(0),
           "number of steps to trace after each start, from the second step on; 0 disables the trace"),
    LT_KEY(record, profile_steps, at_least(0),
           "number of traced steps, from the first, that also record GPU kernels; the trace has at least this many "
           "steps; cuda only; 0: none"),
    LT_KEY(record, tensorboard, any(), "write TensorBoard event files to <run.dir>/tb"),
    LT_KEY(record, csv, any(), "write <run.dir>/metrics.csv"),

    LT_KEY(watchdog, heartbeat_s, above(0), "seconds without a heartbeat before a rank is declared dead"),
    LT_KEY(watchdog, collective_s, above(0),
           "seconds without progress before a collective is declared hung; raised to ten times the slowest step if "
           "that is longer"),
    LT_KEY(watchdog, init_s, above(0), "seconds for all ranks to connect at the start"),

    LT_KEY(run, dir, text(), "folder of the run: metrics, log, checkpoints"),
    LT_KEY(run, name, text_or_empty(),
           "name shown in reports before the folder's name; empty: only the folder's name"),
    LT_KEY(run, force, any(),
           "if checkpoint.resume is never or a folder, move an existing run in run.dir aside; false ends with an "
           "error instead"),
  };
  keys.insert(keys.end(), weights_and_data.begin(), weights_and_data.end());
  add_rows(keys, models, "batches", &ModelRow::batch_fields, values_of_batches);
  keys.insert(keys.end(), others.begin(), others.end());
  return keys;
}
// clang-format on
#undef LT_KEY

std::set<std::string> built_in_families() {
  const auto names = family_names({.transformers = true});
  return {names.begin(), names.end()};
}

bool is_of_model(const Key& key, const Config& config) {
  const ModelTable& models = *config.models;
  if (key.section != "model" && key.section != "batches") return true;
  if (key.section == "model" && (key.name == "family" || key.name == "from" || key.name == "freeze")) return true;
  const ModelRow* const row = own_row(config);
  const auto has = [&](const ModelRow& of) {
    const std::vector<ModelField>& fields = key.section == "model" ? of.fields : of.batch_fields;
    return std::ranges::find(fields, key.name, &ModelField::name) != fields.end();
  };
  return row != nullptr ? has(*row) : std::ranges::none_of(models.rows, has);
}

}  // namespace lt::config
