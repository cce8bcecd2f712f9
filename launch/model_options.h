// What `sample` and `eval` share: the options that name a trained model, and loading it.
#pragma once

#include <string>

#include "command.h"
#include "libtrain/train/generate.h"

namespace lt::launch {

struct ModelOptions {
  std::string checkpoint;
  std::string tokenizer;  // a file, where the checkpoint's own is not to be taken; empty: that of the checkpoint
  std::string weights = "master";
};

void add_model_options(CLI::App& app, ModelOptions& options);

// Which weights of a checkpoint are read.
void add_weights_option(CLI::App& app, std::string& weights);

// Says on standard error which newer checkpoints were passed over, and why.
LoadedModel load_model(const ModelOptions& options);

}  // namespace lt::launch
