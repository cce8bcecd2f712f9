// Finds the tokenizers in the folders of token files, and compares them with a model's tokenizer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/config/resolved.h"
#include "libtrain/data/data_source.h"

namespace lt::run {

// A tokenizer.json and its origin.
struct NamedTokenizer {
  std::string key;    // configuration key that names the data or the model
  std::string place;  // path of the file, or "no tokenizer.json in FOLDER"
  std::string text;   // of the file; empty if there is no file: tokens are bytes
};

// How a tokenizer may differ from the expected one. same: not at all. extended: by more added tokens, such as the marks
// of a chat. overlapping: by more or fewer added tokens.
enum class TokenizerMatch { same, extended, overlapping };

// Returns the text of a tokenizer.json. Throws DataError if it cannot be read or is empty.
std::string read_tokenizer(const std::string& path);

// Returns the folder of the first file, after glob patterns are expanded. Throws DataError.
std::string folder_of_tokenizer(const std::vector<DataSource>& sources);

// Returns the tokenizers in the folders of these files, one for each folder. Ignores missing files. Throws DataError.
std::vector<NamedTokenizer> tokenizers_beside(const std::string& key, const std::vector<std::string>& files);
// Like tokenizers_beside(), for the files of data.train, data.sources and, if the run evaluates, data.val.
std::vector<NamedTokenizer> tokenizers_of_data(const Resolved& resolved);
// Throws UsageError that names both tokenizers unless each of tokenizers_of_data() is the tokenizer of model.from,
// possibly with more added tokens.
void require_tokenizer_of_base(const Resolved& resolved);

// Throws UsageError that names both places unless all of `found` match `expected`. Throws DataError if a text is not a
// valid tokenizer.
void require_tokenizer(const NamedTokenizer& expected, const std::vector<NamedTokenizer>& found, TokenizerMatch match);

}  // namespace lt::run
