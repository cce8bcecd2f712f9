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

// How far the work is.
struct PrepareProgress {
  bool resumed = false;               // this process continues another's work
  Size text_bytes = 0;                // encoded since it began
  Size stored_bytes = 0;              // of the files that have been read
  std::optional<Size> stored_in_all;  // unknown with standard input
};

struct PrepareOptions {
  // Paths or glob patterns, or "-" for standard input. A name ending in .gz or .zst is read as compressed; a name
  // ending in .jsonl or .ndjson before that as JSON lines, and so is every input with `chat`, and standard input with
  // `field`. Letters of endings count in either case.
  std::vector<std::string> inputs{};
  std::string tokenizer = "byte";  // or a tokenizer.json, or a folder that holds one
  std::string out{};               // folder; created if missing
  double val_fraction = 0.1;       // share of tokens, or with `pack` of blocks, from the end, in [0, 1); 0: no val.bin
  std::optional<std::string> field{};           // of each JSON line; "text" if not given
  std::optional<std::string> text_separator{};  // between the documents of a text file
  std::optional<std::string> chat{};            // a template of libtrain/tokenizer/chat.h
  Size pack = 0;                                // tokens of a block into which documents are packed; 0: none are
  Size max_file_tokens = 2147483647;            // of an output file
  Size batch_bytes = Size{16} << 20;            // of text in memory, unless a line or a document is longer
  double save_seconds = 5;                      // between the states from which a killed run goes on
  bool overwrite = true;                        // token files in `out`; false: refuses them
  std::function<void(const PrepareProgress&)> on_progress{};  // at the beginning and after each batch
};

struct PrepareResult {
  Size files = 0, bytes = 0;  // of text
  Size train_tokens = 0, val_tokens = 0;
  Size masked_tokens = 0;  // of all: those that are no targets
  bool resumed = false;    // from the state that a killed run left
  // With `chat`: how many there are, and those that train nothing, because no message of the assistant counts.
  Size conversations = 0, untrained_conversations = 0;
  // With `chat`: how many conversations have a value in a field that has no effect ("tools"), and how many messages
  // ("messages[].name").
  std::map<std::string, Size> unused_fields{};
};

// Writes train.bin, val.bin and tokenizer.json into `out`: the tokens of all files one after another. A text file is
// one text with nothing after it, unless a separator divides it. A document (a JSON line, or what a separator ends)
// ends with the tokenizer's end-of-text token, unless the tokenizer is that of bytes. train-00001.bin and so on follow
// where a file would exceed max_file_tokens. Beside a .bin stands a .mask where some of its tokens are no targets. The
// files that belong to a tokenizer.json and stand beside it are copied: class, special tokens, chat templates,
// vocabularies. `out` must not hold such files, or without a train.bin a tokenizer.json, of another tokenizer. Without
// `overwrite` it must not hold token files either, except where a call goes on.
//
// Memory does not grow with the input, but with its longest line, document or word. A text that a tokenizer gives no
// place to cut, as docs/data.md says, is one word. While it works, `out` holds a folder prepare.tmp; if the process is
// killed, or the system fails (a full disk, an input that cannot be read, no memory), the next call with the same
// options and unchanged inputs goes on from there, which gives the same files. All files are whole on disk before the
// first gets its name. Throws UsageError, or DataError that names file, line and field, also if no token of all
// conversations counts. Input that begins as no text in UTF-8 does is a DataError.
PrepareResult prepare(const PrepareOptions& options);

}  // namespace lt
