// The other files of a Hugging Face tokenizer besides tokenizer.json: class, special tokens, chat templates,
// vocabularies. This library does not interpret them. It copies them, so that the transformers library finds them in
// the folder of an exported model.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lt::tokenizer {

// True if `path`, relative to a model's folder, is such a file.
bool is_tokenizer_file(std::string_view path);

// Returns the bytes of such files in a folder, by path relative to the folder. Throws DataError with the component
// `component` if a file cannot be read, is a dangling link or has more than 64 MiB.
std::map<std::string, std::string> read_tokenizer_files(const std::string& component, const std::string& folder);

}  // namespace lt::tokenizer
