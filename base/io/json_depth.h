// The nesting depth of a JSON text. Check it before parsing: the JSON library prints and copies values recursively, and
// a text of a few hundred kilobytes can hold a few hundred thousand levels.
#pragma once

#include <string_view>

namespace lt::io {

// More than this library ever writes.
inline constexpr int kMaxJsonDepth = 32;

// Returns the deepest nesting of arrays and objects. For text that is not JSON the result is arbitrary.
int json_depth(std::string_view text);

}  // namespace lt::io
