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
  double val_fraction = 0.1;        // share of tokens, taken from the end, in [0, 1); 0: no val.bin
  std::string field = "text";       // of each JSON line
};

struct PrepareResult {
  Size files = 0, bytes = 0;  // of text
  Size train_tokens = 0, val_tokens = 0;
};

// Writes train.bin, val.bin and tokenizer.json into `out`: the tokens of all files one after another. A text file is
// one text with nothing after it. A JSON line is a document, which ends with the tokenizer's end-of-text token, unless
// the tokenizer is that of bytes. All files are whole on disk before the first gets its name. Throws UsageError, or
// DataError that names file, line and field.
PrepareResult prepare(const PrepareOptions& options);

}  // namespace lt
