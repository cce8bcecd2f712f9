// The files of a Hugging Face tokenizer beside its tokenizer.json: class, special tokens, chat templates, vocabularies.
// This library does not read them. It hands them on, so that transformers finds them beside an exported model.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lt::tokenizer {

// Whether `path`, relative to a model's folder, is such a file.
bool is_tokenizer_file(std::string_view path);

// Those that a folder has: their bytes by path in the folder. Throws DataError with the component `component` for one
// that cannot be read, is a link to nothing or has more than 64 MiB.
std::map<std::string, std::string> read_tokenizer_files(const std::string& component, const std::string& folder);

}  // namespace lt::tokenizer
