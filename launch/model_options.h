// The options that name a trained model, and loading it. Shared by `sample` and `eval`.
#pragma once

#include <string>

#include "launch/command.h"
#include "libtrain/generate/generate.h"

namespace lt::launch {

struct ModelOptions {
  std::string checkpoint;
  std::string tokenizer;  // for a checkpoint without a usable tokenizer; empty: the checkpoint's
  std::string weights = "master";
  std::string device = "auto", dtype = "auto";
  std::string base;  // for LoRA adapters: new folder of their base model; empty if it was not moved
};

void add_model_options(CLI::App& app, ModelOptions& options);

// Adds the option that selects the weights of a checkpoint.
void add_weights_option(CLI::App& app, std::string& weights);

// Adds the option for the new location of a LoRA checkpoint's base model.
void add_base_option(CLI::App& app, std::string& base);

// Loads the model and its tokenizer. Rank 0 reports on standard error which newer checkpoints were skipped, and why.
// Throws UsageError if options.tokenizer is not the checkpoint's tokenizer, and the errors of lt::load_model().
LoadedModel load_model(const ModelOptions& options, const World& world);

}  // namespace lt::launch
