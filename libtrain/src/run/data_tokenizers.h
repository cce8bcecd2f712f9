// The tokenizers beside token files, and whether they are that of a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/config/resolved.h"
#include "libtrain/data/data_source.h"

namespace lt::run {

// The text of a tokenizer.json; empty where there is none, which stands for bytes.
struct NamedTokenizer {
  std::string key;    // of the configuration: where it was found
  std::string place;  // the file that has it, or "no tokenizer.json in FOLDER"
  std::string text;
};

// How a tokenizer may differ from the expected one: not at all; by more added tokens, such as the marks of a chat; by
// more or fewer.
enum class TokenizerMatch { same, extended, overlapping };

// The text of a tokenizer.json. Throws DataError, also where it is empty, which would stand for bytes.
std::string read_tokenizer(const std::string& path);

// The folder of the first file; patterns count as what they match. Throws DataError.
std::string folder_of_tokenizer(const std::vector<DataSource>& sources);

// The tokenizers in the folders of these files, each folder once. Files that are not there do not count. Throws
// DataError.
std::vector<NamedTokenizer> tokenizers_beside(const std::string& key, const std::vector<std::string>& files);
// Those of data.train, data.sources and data.val.
std::vector<NamedTokenizer> tokenizers_of_data(const Resolved& resolved);
// Throws UsageError, which names both, unless they are of the tokenizer of model.from.
void require_tokenizer_of_base(const Resolved& resolved);

// Throws UsageError, which names two places, unless all of `found` match, and DataError for a text that is no
// tokenizer.
void require_tokenizer(const NamedTokenizer& expected, const std::vector<NamedTokenizer>& found, TokenizerMatch match);

}  // namespace lt::run
