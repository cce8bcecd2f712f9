// The options that name a trained model, and loading it. Shared by `sample` and `eval`.
#pragma once

#include <string>

#include "launch/command.h"
#include "libtrain/generate/generate.h"

namespace lt::launch {

struct ModelOptions {
  std::string checkpoint;
  std::string tokenizer;  // for a checkpoint without a usable one; empty: the checkpoint's
  std::string weights = "master";
  std::string device = "auto", dtype = "auto";
  std::string base;  // of adapters, if it was moved
};

void add_model_options(CLI::App& app, ModelOptions& options);

// Adds the option that selects the weights of a checkpoint.
void add_weights_option(CLI::App& app, std::string& weights);

// Adds the option that says where the base of adapters is now.
void add_base_option(CLI::App& app, std::string& base);

// Reports on standard error which newer checkpoints were skipped, and why. Throws UsageError for a tokenizer that is
// not the checkpoint's.
LoadedModel load_model(const ModelOptions& options, const World& world);

}  // namespace lt::launch
