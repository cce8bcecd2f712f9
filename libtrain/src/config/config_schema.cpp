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
  return rule;
}
Rule one_of_or_empty(std::vector<std::string> choices) {
  return {.low = 0, .high = 0, .choices = std::move(choices), .may_be_empty = true};
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

// Adds the fields of the program's rows, each name once.
void add_rows(std::vector<Key>& keys, const ModelTable& models) {
  std::set<std::string_view> added;
  for (const ModelRow& row : models.rows) {
    for (const ModelField& field : row.fields) {
      if (!added.insert(field.name).second) continue;
      const auto at = [&field](Config& c) {
        return std::visit([](auto& value) -> Field { return &value; }, c.model.own.at(field.name));
      };
      keys.push_back({"model", field.name, at, rule_of(field), field.help});
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
    keys = {LT_KEY(model, preset, one_of(preset_names()), "the shape that the keys below start from")};
    add_spec(keys, models);
  } else if (!models.rows.empty()) {
    keys = {LT_KEY(model, family, one_of(family_names(models)), "the model")};
  }
  add_rows(keys, models);
  const std::vector<Key> others = {
    LT_KEY(model, from, text_or_empty(),
           models.transformers
               ? "initial weights: a checkpoint or a Hugging Face folder, which gives the shape; empty: from train.seed"
               : "initial weights: a checkpoint; empty: from train.seed"),
    LT_KEY(model, freeze, any(), "patterns of parameters that are not trained, * for any text"),

    LT_KEY(data, train, text(), "token files or glob patterns: a list, outside a file separated by commas"),
    LT_KEY(data, val, text(), "the same, for evaluation"),
    LT_KEY(data, sources, any(), "in place of train: tables of files, weight; JSON outside a file"),
    LT_KEY(data, documents, named<Documents>(),
           "mask: attention and positions stay inside a document, which ends with the tokenizer's end-of-text token"),
    LT_KEY(data, epochs, at_least(0), "in place of train.steps: passes over all samples; 0: train.steps counts"),
    LT_KEY(data, seed, at_least(0), "seed of the order of samples"),
    LT_KEY(data, shuffle, any(), "false: blocks in file order"),
    LT_KEY(data, format, named<TokenFormat>(), "auto: by magic number; raw16: uint16 without a header"),

    LT_KEY(parallel, strategy, named<Strategy>(), "what is sharded over the ranks"),
    LT_KEY(parallel, shard_size, at_least(0), "ranks of a shard group; 0: all; fewer: hybrid sharding"),
    LT_KEY(parallel, recompute, named<Recompute>(), "activations that backward computes again"),
    LT_KEY(parallel, recompute_every, at_least(1), "recompute every n-th block"),
    LT_KEY(parallel, reduce_dtype, named<DType>(), "dtype of gradients on the wire; they are added in f32"),
    LT_KEY(parallel, backend, named<CommBackend>(),
           "library of the collectives; auto: nccl on cuda, mpi on cpu"),

    LT_KEY(train, steps, at_least(0), "optimizer steps; 0: save the initial state and exit"),
    LT_KEY(train, max_minutes, at_least(0),
           "stop after this time of training, counted anew at each start; 0: no limit"),
    LT_KEY(train, micro_batch, at_least(1), "samples per forward and backward pass, per rank"),
    LT_KEY(train, accum, at_least(1), "micro-batches per step"),
    LT_KEY(train, global_batch, at_least(0),
           "samples per step; accum follows from it and the ranks; 0: ranks x micro_batch x accum"),
    LT_KEY(train, seq, at_least(0), "tokens per sample; 0: max_seq of the model, 1 for one that is no transformer"),
    LT_KEY(train, dtype, named<Precision>(),
           "dtype of the computation; fp8: bf16 with products of blocks in e4m3"),
    LT_KEY(train, device, named<std::optional<DeviceType>>(), "auto: cuda if this build and this machine have it"),
    LT_KEY(train, seed, at_least(0), "seed of initial weights and dropout"),
    LT_KEY(train, deterministic, any(), "the same bits under every strategy at the same rank count"),
    LT_KEY(train, eval_every, at_least(0), "steps between evaluations; 0: none"),
    LT_KEY(train, eval_tokens, at_least(0), "tokens per evaluation, the first ones of data.val; 0: all"),
    LT_KEY(train, eval_steps, at_least(0), "deprecated, use eval_tokens: global batches per evaluation; 0: not used"),
    LT_KEY(train, sample_every, at_least(0), "steps between generated samples; 0: none"),
    LT_KEY(train, cuda_graph, named<std::optional<bool>>(),
           "a step as one CUDA graph, except beside a copy of the state; the same bits; auto: on GPUs"),
    LT_KEY(train, tf32, any(), "with f32 on cuda: matrix products round their operands to TF32"),
    LT_KEY(train, z_loss, at_least(0), "factor of log(sum of exp(logits))^2, which training adds to the loss"),
    LT_KEY(train, label_smoothing, from_0_below_1(), "share of each target that training spreads over the vocabulary"),

    LT_KEY(optim, name, one_of(optimizer_names()),
           "optimizer; muon trains the matrices of blocks, AdamW all other parameters"),
    LT_KEY(optim, lr, at_least(0), "learning rate after warm-up"),
    LT_KEY(optim, min_lr, any(), "learning rate at the end; negative: lr / 10"),
    LT_KEY(optim, warmup, at_least(0), "steps of linear warm-up"),
    LT_KEY(optim, schedule, named<Decay>(),
           "the learning rate's course after warm-up"),
    LT_KEY(optim, beta1, from_0_below_1(), "AdamW, decay of the first moment"),
    LT_KEY(optim, beta2, from_0_below_1(), "AdamW, decay of the second moment"),
    LT_KEY(optim, eps, above(0), "AdamW, added to the denominator"),
    LT_KEY(optim, weight_decay, at_least(0), "on tensors of two or more dimensions"),
    LT_KEY(optim, momentum, from_0_below_1(), "Muon, decay of the sum of gradients"),
    LT_KEY(optim, clip, at_least(0), "bound on the global gradient norm; 0: none"),
    LT_KEY(optim, state_dtype, named<DType>(), "dtype of moments and momenta; bf16 is rounded stochastically"),
    LT_KEY(optim, master, named<std::optional<DType>>(),
           "dtype of master weights; none: bf16 weights alone, rounded stochastically"),
    LT_KEY(optim, ema, from_0_below_1(), "decay of the weights' average, a state that --weights ema reads; 0: none"),
    LT_KEY(optim, groups, any(), "tables of match, lr_scale, weight_decay, optimizer; JSON outside a file"),

    LT_KEY(checkpoint, dir, text_or_empty(), "folder; empty: <run.dir>/checkpoints"),
    LT_KEY(checkpoint, every, at_least(0), "steps between checkpoints; 0: at the end only"),
    LT_KEY(checkpoint, every_minutes, at_least(0), "minutes between checkpoints; 0: by steps only"),
    LT_KEY(checkpoint, keep, at_least(2), "newest checkpoints that stay, at least 2"),
    LT_KEY(checkpoint, keep_every, at_least(0), "checkpoints at multiples of this step stay forever; 0: none"),
    LT_KEY(checkpoint, best, any(), "the checkpoint with the lowest evaluation loss stays"),
    LT_KEY(checkpoint, async, any(), "write while training goes on"),
    LT_KEY(checkpoint, memory_every, at_least(0), "steps between copies in the hosts' memory; 0: none"),
    LT_KEY(checkpoint, resume, text(), "auto (newest valid one of the run), never, or a folder"),

    LT_KEY(record, every, at_least(1), "steps between console lines"),
    LT_KEY(record, trace_steps, at_least(0), "steps in the trace, from the second step of the start on"),
    LT_KEY(record, profile_steps, at_least(0), "steps of the trace with kernels, from its first step on; on cuda"),
    LT_KEY(record, tensorboard, any(), "write event files of TensorBoard to <run.dir>/tb"),
    LT_KEY(record, csv, any(), "write <run.dir>/metrics.csv"),

    LT_KEY(watchdog, heartbeat_s, above(0), "seconds of silence after which a rank counts as dead"),
    LT_KEY(watchdog, collective_s, above(0), "seconds that a collective may take without progress"),
    LT_KEY(watchdog, init_s, above(0), "seconds for all ranks to meet"),

    LT_KEY(run, dir, text(), "folder of the run: metrics, log, checkpoints"),
    LT_KEY(run, name, text_or_empty(), "shown by reports, before the folder's name"),
    LT_KEY(run, force, any(), "move an existing run aside if a fresh one is requested"),
  };
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
  if (key.section != "model" || key.name == "family" || key.name == "from" || key.name == "freeze") return true;
  const ModelRow* const row = own_row(config);
  const auto has = [&](const ModelRow& of) {
    return std::ranges::find(of.fields, key.name, &ModelField::name) != of.fields.end();
  };
  return row != nullptr ? has(*row) : std::ranges::none_of(models.rows, has);
}

}  // namespace lt::config
