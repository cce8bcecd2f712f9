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

// False where more than a third of the key would be another letter: then it is no slip of `name`.
bool is_near(std::string_view name, std::string_view candidate);

// "did you mean X?" where the nearest candidate is near, else that `list` lists them, and the nearest.
std::string nearest_hint(std::string_view name, const std::vector<std::string>& candidates, const std::string& list);

}  // namespace lt
