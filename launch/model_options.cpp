// Chooses device and dtype, and checks that a given tokenizer is the checkpoint's.
#include "launch/model_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <utility>

#include "io/print_note.h"
#include "libtrain/error.h"
#include "libtrain/tokenizer/tokenizer.h"
#include "tokenizer/same_tokenizer.h"

namespace lt::launch {

void add_weights_option(CLI::App& app, std::string& weights) {
  app.add_option("--weights", weights, "weights to load: master, or ema (the moving average, for runs with optim.ema)")
      ->check(CLI::IsMember({kMaster, kAverage}))
      ->option_text("master|ema = master");
}

void add_base_option(CLI::App& app, std::string& base) {
  app.add_option("--model.from", base, "base model of a checkpoint of LoRA adapters, if moved since training")
      ->option_text("FOLDER");
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option("DIR,--checkpoint", options.checkpoint,
                 "a checkpoint, a folder of checkpoints or a run folder; the newest valid checkpoint is used")
      ->required()
      ->option_text("(required)");
  app.add_option("--tokenizer", options.tokenizer,
                 "tokenizer for a checkpoint that has no usable one: byte, a tokenizer.json, or a folder with one")
      ->option_text("byte|FILE.json");
  add_weights_option(app, options.weights);
  add_base_option(app, options.base);
  app.add_option("--train.device", options.device,
                 "device to run on; auto: cuda if this build supports it and the machine has a GPU, else cpu")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->option_text("auto|cpu|cuda = auto");
  app.add_option("--train.dtype", options.dtype,
                 "dtype of weights and computation; auto: the run's train.dtype (bf16 for fp8), or f32 if unknown")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "f16"}))
      ->option_text("auto|f32|bf16|f16 = auto");
}

namespace {

// Throws UsageError if the checkpoint's own tokenizer says that its ids are not those of `given`. Nothing is known of a
// kind that is not supported but that it is not bytes.
void require_tokenizer_of(const LoadedModel& loaded, const std::string& name, const Tokenizer& given) {
  const bool is_known = loaded.tokenizer != nullptr;
  const std::string own = is_known ? loaded.tokenizer->to_json() : "", text = given.to_json();
  const bool is_other = is_known ? !tokenizer::extends_tokenizer(own, text) && !tokenizer::extends_tokenizer(text, own)
                                 : !loaded.tokenizer_problem.empty() && given.bytes_per_token() == 1;
  if (!is_other) return;
  const bool is_bytes = is_known && loaded.tokenizer->bytes_per_token() == 1;
  throw UsageError(
      "usage",
      fmt::format("--tokenizer {}: expected the tokenizer of the model, {}{}/manifest.json, got another one", name,
                  is_bytes ? "bytes by " : "", loaded.directory),
      is_known ? "without --tokenizer it is that of the model" : loaded.tokenizer_hint);
}

}  // namespace

LoadedModel load_model(const ModelOptions& options, const World& world) {
  const DeviceType type = options.device == "auto"   ? best_device()
                          : options.device == "cuda" ? DeviceType::cuda
                                                     : DeviceType::cpu;
  LoadedModel loaded = lt::load_model(options.checkpoint, {.weights = options.weights,
                                                           .device = world.device(type),
                                                           .dtype = find_state_dtype(options.dtype),
                                                           .base = options.base});
  if (world.rank() == 0) {
    for (const std::string& note : loaded.passed_over) io::print_note("passed over: {}\n", note);
  }
  if (options.tokenizer.empty()) return loaded;
  const bool has_own = loaded.tokenizer != nullptr;
  const std::string name = find_tokenizer(options.tokenizer);
  auto given = make_tokenizer(name);
  require_tokenizer_of(loaded, name, *given);
  loaded.tokenizer = std::move(given), loaded.tokenizer_name = name;
  // Nothing says what the ids of raw16 stand for, but more of them than there are bytes are no bytes.
  const Size vocab = loaded.model->spec().vocab;
  if (!has_own && loaded.read_raw16 && loaded.tokenizer->bytes_per_token() == 1 && vocab > loaded.tokenizer->vocab()) {
    throw UsageError("usage",
                     fmt::format("--tokenizer {}: expected the tokenizer of the model's raw16 data, of {} ids, got the "
                                 "{} bytes",
                                 options.tokenizer, vocab, loaded.tokenizer->vocab()),
                     "--tokenizer FILE.json: ids up to 50256 are those of GPT-2's tokenizer.json");
  }
  return loaded;
}

}  // namespace lt::launch
