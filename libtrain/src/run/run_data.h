// The data that a run reads: batches for training and for validation, and the tokenizer of their tokens.
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
  BatchSource* batches = nullptr;           // training batches; null if there is no source
  const TokenLoader* loader = nullptr;      // `batches`, if they are read from token files; otherwise null
  std::vector<checkpoint::DataFile> files;  // of `loader`
  std::vector<ValidationSet> validation;    // one for each entry of data.val; empty without evaluations
  std::string tokenizer_text;               // tokenizer.json in the folder of the training data; empty: no such file
  std::map<std::string, std::string> tokenizer_files;  // other files of the tokenizer, as in checkpoint::RunState
  std::unique_ptr<Tokenizer> tokenizer;                // null if missing or not supported by this version
  std::unique_ptr<TokenLoader> opened;                 // owns the loader of the configuration's files
};

// Opens and checks everything. `given` replaces the configuration's training files; null: uses those files. All ranks
// must call it. Throws UsageError and DataError.
RunData open_data(const Resolved& resolved, const World& world, const Group& control, const nn::Model& model,
                  BatchSource* given);

}  // namespace lt::run
