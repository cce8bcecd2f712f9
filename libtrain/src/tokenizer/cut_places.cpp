// Searches for cut places byte by byte.
#include "tokenizer/cut_places.h"

namespace lt::tokenizer {
namespace {

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_behind_line_feed(std::string_view text, std::size_t at) {
  return text[at - 1] == '\n' && at < text.size() && static_cast<unsigned char>(text[at]) > ' ';
}

// The character behind the space may be outside of a part.
bool is_before_space(std::string_view text, std::size_t at, bool is_part) {
  return at < text.size() && text[at] == ' ' && is_ascii_letter(text[at - 1]) &&
         (at + 1 < text.size() ? is_ascii_letter(text[at + 1]) : is_part);
}

}  // namespace

std::size_t next_cut_place(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('\n', from); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    if (is_behind_line_feed(text, at + 1)) return at + 1;
  }
  return text.size();
}

std::size_t last_cut_place(std::string_view text, std::size_t to, bool spaces_alone) {
  for (std::size_t at = spaces_alone ? 0 : to; at > 0; --at) {
    if (is_behind_line_feed(text, at)) return at;
  }
  for (std::size_t at = to; at > 0; --at) {
    if (is_before_space(text, at, false)) return at;
  }
  return 0;
}

bool has_cut_place(std::string_view part) {
  for (std::size_t at = 1; at < part.size(); ++at) {
    if (is_behind_line_feed(part, at) || is_before_space(part, at, true)) return true;
  }
  return false;
}

}  // namespace lt::tokenizer
