// Text to token files: what `ltrain prepare` does.
#pragma once

#include <string>
#include <vector>

#include "libtrain/dtype.h"

namespace lt {

struct PrepareOptions {
  std::vector<std::string> inputs;  // paths or glob patterns; a name ending in .jsonl is read as JSON lines
  std::string tokenizer = "byte";   // or the path of a tokenizer.json
  std::string out;                  // folder; made where it is not there
  double val_fraction = 0.1;        // the last part of all tokens, in [0, 1)
};

struct PrepareResult {
  Size files = 0, bytes = 0;  // of text
  Size train_tokens = 0, val_tokens = 0;
};

// Writes train.bin, val.bin and tokenizer.json into `out`: the tokens of all files one after another, nothing between
// them. All three are whole on the disk before the first takes its name. Of JSON lines the field "text" is taken.
// Throws UsageError, or DataError naming file, line and field.
PrepareResult prepare(const PrepareOptions& options);

}  // namespace lt
