// Converts text to token files, for `ltrain prepare`.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/dtype.h"

namespace LT_API lt {

// How much of the work is done.
struct PrepareProgress {
  bool resumed = false;               // this call continues the work of a killed one
  Size text_bytes = 0;                // bytes of text that this call has encoded
  Size stored_bytes = 0;              // bytes of the input files, as stored, that have been read
  std::optional<Size> stored_in_all;  // bytes of all input files; nullopt if one is not a regular file
};

struct PrepareOptions {
  // Paths or glob patterns, or "-" for standard input. The ending of a name, in upper or lower case, says how it is
  // read: .gz and .zst as compressed, .jsonl and .ndjson (before .gz or .zst) as JSON lines, any other as text.
  // With `chat`, all inputs are JSON lines. With `field` but without `text_separator`, standard input is JSON lines
  // too.
  std::vector<std::string> inputs{};
  std::string tokenizer = "byte";  // or a tokenizer.json, or a folder that holds one
  std::string out{};               // folder; created if missing
  double val_fraction = 0.1;       // share of the tokens (with `pack`: blocks), from the end; in [0, 1); 0: no val.bin
  std::optional<std::string> field{};           // field of a JSON line that holds the text; nullopt: "text"
  std::optional<std::string> text_separator{};  // text between the documents of a text file
  std::optional<std::string> chat{};            // a template of libtrain/tokenizer/chat.h
  Size pack = 0;                                // tokens of a block into which documents are packed; 0 disables it
  Size max_file_tokens = 2147483647;            // most tokens in an output file; up to 2^31 - 1
  Size batch_bytes = Size{16} << 20;            // bytes of text in memory, unless a line or document is longer
  double save_seconds = 5;                      // seconds between saved states, from which a killed call is resumed
  bool overwrite = true;                        // overwrites token files in `out`; false: refuses to
  std::function<void(const PrepareProgress&)> on_progress{};  // called at the beginning and after each batch
};

struct PrepareResult {
  Size files = 0, bytes = 0;  // input files, and bytes of text in them
  Size train_tokens = 0, val_tokens = 0;
  Size masked_tokens = 0;  // tokens in train and val files that are not targets
  bool resumed = false;    // continued the work of a killed call
  // With `chat`: number of conversations, and of conversations without a trained message of the assistant (no targets).
  Size conversations = 0, untrained_conversations = 0;
  // With `chat`: for each field that has no effect, the number of conversations ("tools") or messages
  // ("messages[].name") that have a value in it.
  std::map<std::string, Size> unused_fields{};
};

// Writes the tokens of all inputs, one after another, to train.bin and val.bin in `out`, and tokenizer.json with them.
// If a file would exceed max_file_tokens, train-00001.bin and so on follow. If some tokens of NAME.bin are not targets,
// NAME.mask marks them.
// A document is a JSON line, or the text between separators. It ends with the tokenizer's end-of-text token, except
// with the tokenizer `byte`. A text file without a separator is one text; no token is added after it, except with
// `pack`. Other files of the tokenizer in the folder of tokenizer.json (class, special tokens, chat templates,
// vocabularies) are copied too. `out` must not hold such files of another tokenizer. It may hold another tokenizer.json
// only if it also holds a train.bin. Without `overwrite`, `out` must not hold token files either, unless the call
// resumes a killed one.
//
// Memory does not grow with the input, but with its longest line, document or word. If the tokenizer does not allow a
// text to be cut (see docs/how-to/data.md), the complete text is one word. During the work, `out` holds a folder
// prepare.tmp. If the process is killed, or the system fails (a full disk, an unreadable input, no memory), the next
// call with the same options and unchanged inputs continues from that folder and writes the same files; with standard
// input it begins anew. All files are complete on disk before the first one gets its final name. Throws UsageError for
// invalid options. Throws DataError, which names file, line and field, for invalid input, for input whose beginning is
// not UTF-8 text, and if no token of any conversation is a target.
PrepareResult prepare(const PrepareOptions& options);

}  // namespace lt
