// Unicode's normalization form C. The only file that sees utf8proc.
#pragma once

#include <string>
#include <string_view>

namespace lt::tokenizer {

// `text`, valid UTF-8, in normalization form C (Unicode Standard Annex 15). Text before and after an ASCII character
// can be normalized apart.
std::string nfc(std::string_view text);

}  // namespace lt::tokenizer
