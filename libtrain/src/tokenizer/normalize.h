// Unicode's normalization form C.
#pragma once

#include <string>
#include <string_view>

namespace lt::tokenizer {

// Returns `text`, which must be valid UTF-8, in normalization form C (Unicode Standard Annex 15). Text before and after
// an ASCII character can be normalized separately.
std::string nfc(std::string_view text);

}  // namespace lt::tokenizer
