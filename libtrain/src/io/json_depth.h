// The nesting depth of a JSON text, checked before parsing: the JSON library prints and copies values recursively, and
// a text of a few hundred kilobytes can hold as many levels.
#pragma once

#include <string_view>

namespace lt {

// More than this library ever writes.
inline constexpr int kMaxJsonDepth = 32;

// The number of nested arrays and objects; any number for text that is not JSON.
int json_depth(std::string_view text);

}  // namespace lt
