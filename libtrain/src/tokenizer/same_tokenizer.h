// Whether two tokenizer.json files give text the same tokens.
#pragma once

#include <string>

namespace lt::tokenizer {

// Whether `more` gives text the ids that `base` gives it, but for added tokens that only `more` has. The two may be
// written in different ways. A text that is no tokenizer.json of Hugging Face's, or empty, stands for bytes:
// checked_tokenizer() tells a broken one. Kinds that this version does not read are equal if their JSON is.
bool extends_tokenizer(const std::string& base, const std::string& more);

}  // namespace lt::tokenizer
