// Unicode's White_Space.
#pragma once

#include <algorithm>
#include <iterator>

namespace lt::tokenizer {

struct CharacterRange {
  char32_t first, last;
};

inline constexpr CharacterRange kWhiteSpace[] = {{0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                                 {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                                 {0x205f, 0x205f}, {0x3000, 0x3000}};

inline bool is_white_space(char32_t character) {
  return std::any_of(std::begin(kWhiteSpace), std::end(kWhiteSpace),
                     [&](const CharacterRange& range) { return character >= range.first && character <= range.last; });
}

}  // namespace lt::tokenizer
