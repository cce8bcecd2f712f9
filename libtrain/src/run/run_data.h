// What a run reads: batches for training and for validation, and the tokenizer of their tokens.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/comm/world.h"
#include "libtrain/config/resolved.h"
#include "libtrain/data/data.h"
#include "libtrain/nn/module.h"
#include "libtrain/tokenizer/tokenizer.h"
#include "run/evaluation.h"

namespace lt::run {

struct RunData {
  BatchSource* batches = nullptr;           // null if nothing is given and no files are named
  const TokenLoader* loader = nullptr;      // `batches`, if they come from token files
  std::vector<checkpoint::DataFile> files;  // of `loader`
  std::vector<ValidationSet> validation;    // one for each entry of data.val; empty without evaluations
  std::string tokenizer_text;               // of tokenizer.json in the folder of the training data; empty: no such file
  std::map<std::string, std::string> tokenizer_files;  // other files of the tokenizer, as in checkpoint::RunState
  std::unique_ptr<Tokenizer> tokenizer;                // null if missing or unreadable for this version
  std::unique_ptr<TokenLoader> opened;                 // the files of the configuration
};

// Opens and checks everything. `given` replaces the files of the configuration; null: those files. All ranks must call
// it. Throws UsageError and DataError.
RunData open_data(const Resolved& resolved, const World& world, const Group& control, const nn::Model& model,
                  BatchSource* given);

}  // namespace lt::run
