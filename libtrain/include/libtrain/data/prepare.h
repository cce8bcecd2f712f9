// Converts text to token files, for `ltrain prepare`.
#pragma once

#include <string>
#include <vector>

#include "libtrain/dtype.h"

namespace lt {

struct PrepareOptions {
  std::vector<std::string> inputs;  // paths or glob patterns; a name ending in .jsonl is read as JSON lines
  std::string tokenizer = "byte";   // or the path of a tokenizer.json
  std::string out;                  // folder; created if missing
  double val_fraction = 0.1;        // share of tokens, taken from the end, in [0, 1)
};

struct PrepareResult {
  Size files = 0, bytes = 0;  // of text
  Size train_tokens = 0, val_tokens = 0;
};

// Writes train.bin, val.bin and tokenizer.json into `out`: the tokens of all files one after another, with nothing
// between them. All three are whole on disk before the first gets its name. JSON lines contribute their field "text".
// Throws UsageError, or DataError that names file, line and field.
PrepareResult prepare(const PrepareOptions& options);

}  // namespace lt
