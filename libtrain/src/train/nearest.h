// The name that was probably meant, for messages about unknown ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lt {

// Insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string alignment).
int edit_distance(std::string_view a, std::string_view b);

// Names of the form "section.key" are compared part by part, and a wrong or missing section costs little.
int name_distance(std::string_view a, std::string_view b);

// The candidate with the smallest distance, the first of equals. `candidates` must not be empty.
const std::string& nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace lt
