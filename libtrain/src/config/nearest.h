// Finds the name that was probably meant, for error messages about unknown names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lt::config {

// The number of insertions, deletions, replacements and swaps of adjacent letters that turn a into b (optimal string
// alignment).
int edit_distance(std::string_view a, std::string_view b);

// The edit distance of the keys of two names "section.key", plus that of their sections, but at most 2 for the section.
int name_distance(std::string_view a, std::string_view b);

// The candidate with the smallest name_distance(), the first one of equals. `candidates` must not be empty.
const std::string& nearest(std::string_view name, const std::vector<std::string>& candidates);

// False if the edit distance of the keys is more than a third of the length of `name`'s key: too much for a typing
// error.
bool is_near(std::string_view name, std::string_view candidate);

// Returns "did you mean X?" if the nearest candidate is near. Otherwise it names `list` and the nearest candidate.
std::string nearest_hint(std::string_view name, const std::vector<std::string>& candidates, const std::string& list);

}  // namespace lt::config
