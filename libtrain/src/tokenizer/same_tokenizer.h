// Decides whether two tokenizer.json files give a text the same tokens.
#pragma once

#include <string>

namespace lt::tokenizer {

// True if `more` gives every text the same ids as `base`, except for added tokens that only `more` has. Both are texts
// of tokenizer.json files. A text that is empty or not from Hugging Face means the byte tokenizer; call
// checked_tokenizer() first to detect broken ones. Tokenizers that this version does not support are compared by their
// JSON.
bool extends_tokenizer(const std::string& base, const std::string& more);

}  // namespace lt::tokenizer
