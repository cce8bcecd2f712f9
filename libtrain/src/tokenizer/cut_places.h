// Where long texts are cut: between a line feed and what is no white space, or else before a space between letters.
// Most words end there; whether a word really ends at a place is for the caller to see.
#pragma once

#include <cstddef>
#include <string_view>

namespace lt::tokenizer {

// The first place behind a line feed, from `from` on; text.size() if there is none.
std::size_t next_cut_place(std::string_view text, std::size_t from);
// The last place up to `to`, behind a line feed if there is any, unless only those before spaces count; 0 if there is
// none.
std::size_t last_cut_place(std::string_view text, std::size_t to, bool spaces_alone);
// Whether a part of a text could have a place inside.
bool has_cut_place(std::string_view part);

}  // namespace lt::tokenizer
