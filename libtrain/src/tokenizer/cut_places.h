// Cut places: the positions at which long texts may be cut. They are after a line feed, if no ASCII white space or
// control character follows, and before a space between ASCII letters. Words usually end there; the caller must check
// that a word does.
#pragma once

#include <cstddef>
#include <string_view>

namespace lt::tokenizer {

// Returns the first place after a line feed at or after `from`; text.size() if there is none.
std::size_t next_cut_place(std::string_view text, std::size_t from);
// Returns the last place after a line feed up to `to`. If there is none, or if `spaces_alone`, returns the last place
// before a space; 0 if there is none either.
std::size_t last_cut_place(std::string_view text, std::size_t to, bool spaces_alone);
// True if `part` of a text could have a cut place inside.
bool has_cut_place(std::string_view part);

}  // namespace lt::tokenizer
