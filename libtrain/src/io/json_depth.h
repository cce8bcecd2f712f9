// How deep a JSON text nests, before a parser sees it: the JSON library prints and copies values by recursion, and a
// text of a few hundred kilobytes can hold as many levels.
#pragma once

#include <string_view>

namespace lt {

// Deeper than anything that this library writes.
inline constexpr int kMaxJsonDepth = 32;

// Levels of arrays and objects in each other; of text that is no JSON some number.
int json_depth(std::string_view text);

}  // namespace lt
