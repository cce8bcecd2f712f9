// Reads a Hugging Face tokenizer.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pre_tokenizer.h"

namespace lt::tokenizer {

// How tokens become text again.
struct TokenDecoder {
  bool bytes = true;  // tokens are bytes; false: text in which U+2581 stands for a space, and <0x0A> for a byte
  bool first_without_spaces = false;  // spaces of the first token are left out
  bool strip_first_space = false;     // one space at the beginning of the text is left out
};

struct TokenizerDescription {
  Bpe::Tokens vocabulary;  // with bytes instead of the byte alphabet where BpeOptions::by_bytes
  Bpe::Merges merges;
  BpeOptions bpe;
  std::vector<AddedToken> added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TokenDecoder decoder;
};

// The JSON of a file's text; not an object if the text is invalid or nests deeper than a tokenizer file does.
nlohmann::json parsed_tokenizer(const std::string& text);
// The same. Throws DataError, which names the text by `where`, unless it is that of a Hugging Face tokenizer or of the
// byte tokenizer.
nlohmann::json checked_tokenizer(const std::string& text, const std::string& where);
bool is_hugging_face_tokenizer(const nlohmann::json& json);
// The same for a file's text, which may be anything.
bool is_hugging_face_tokenizer(const std::string& text);
// Reads byte-level BPE (GPT-2, Llama 3, Qwen) and BPE over characters with U+2581 for spaces (Llama 2, Mistral). The
// post-processor is not read: it adds tokens to a sequence, which this library's documents do not have. Throws
// UsageError that names the field, what is supported and what was found for every other kind, and DataError for a
// broken file.
TokenizerDescription read_tokenizer_json(const nlohmann::json& json, const std::string& where);

}  // namespace lt::tokenizer
