// Reads a Hugging Face tokenizer.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pre_tokenizer.h"

namespace lt::tokenizer {

// How tokens are decoded to text.
struct TokenDecoder {
  bool bytes = true;                  // tokens are bytes; false: text in which U+2581 is a space, and <0x0A> a byte
  bool first_without_spaces = false;  // drops the leading spaces of the first token
  bool strip_first_space = false;     // drops one space at the beginning of the text
};

struct TokenizerDescription {
  Bpe::Tokens vocabulary;  // with BpeOptions::by_bytes, as bytes instead of the byte alphabet
  Bpe::Merges merges;
  BpeOptions bpe;
  std::vector<AddedToken> added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TokenDecoder decoder;
};

// Parses a file's text. The result is not an object if the text is invalid JSON or nests too deeply for a tokenizer
// file.
nlohmann::json parsed_tokenizer(const std::string& text);
// Like parsed_tokenizer(), but throws DataError unless the text is of a Hugging Face tokenizer or of the byte
// tokenizer. `where` names the text in the error.
nlohmann::json checked_tokenizer(const std::string& text, const std::string& where);
bool is_hugging_face_tokenizer(const nlohmann::json& json);
// Like is_hugging_face_tokenizer() above, for the text of a file, which may be invalid.
bool is_hugging_face_tokenizer(const std::string& text);
// Reads byte-level BPE (GPT-2, Llama 3, Qwen) and BPE over characters with U+2581 for spaces (Llama 2, Mistral). Does
// not read the post-processor, which adds tokens to a sequence, because this library's documents have no such tokens.
// Throws UsageError for every other kind, naming the field, the supported values and the found one, and DataError for a
// broken file.
TokenizerDescription read_tokenizer_json(const nlohmann::json& json, const std::string& where);

}  // namespace lt::tokenizer
