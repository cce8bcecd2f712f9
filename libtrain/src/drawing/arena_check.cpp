// Checks whether a text is an arena drawing, by a list of the valid elements and attributes.
#include <algorithm>
#include <array>
#include <string_view>

#include "drawing/arena_drawing.h"

namespace lt::drawing {
namespace {

constexpr std::string_view kOpening = "<svg class=\"arena\" xmlns=\"http://www.w3.org/2000/svg\" ";
constexpr std::array<std::string_view, 7> kElements = {"svg", "style", "g", "rect", "title", "text", "line"};
constexpr std::array<std::string_view, 13> kAttributes = {"class", "xmlns",  "viewBox", "role", "aria-label", "x", "y",
                                                          "width", "height", "x1",      "x2",   "y1",         "y2"};
// A style sheet without these words loads nothing, and without '&' and '\' it cannot disguise them.
constexpr std::array<std::string_view, 6> kNotInStyle = {"url", "@import", "@font", "expression", "\\", "&"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Matches ` name="value"` any number of times, then at most one slash.
bool attributes_are_known(std::string_view text) {
  while (!text.empty() && text != "/") {
    const std::size_t equals = text.find("=\"");
    if (text[0] != ' ' || equals == std::string_view::npos) return false;
    const std::size_t end = text.find('"', equals + 2);
    if (end == std::string_view::npos || !is_one_of(kAttributes, text.substr(1, equals - 1))) return false;
    text.remove_prefix(end + 1);
  }
  return true;
}

}  // namespace

bool is_arena_svg(const std::string& text) {
  if (!text.starts_with(kOpening) || !text.ends_with("</svg>\n")) return false;
  const std::string_view all(text);
  int open = 0, drawings = 0;
  for (std::size_t at = 0; (at = all.find('<', at)) != std::string_view::npos;) {
    const std::size_t end = all.find('>', at);
    if (end == std::string_view::npos) return false;
    std::string_view tag = all.substr(at + 1, end - at - 1);
    at = end + 1;
    const bool closes = tag.starts_with('/'), empty = tag.ends_with('/');
    if (closes) tag.remove_prefix(1);
    const std::string_view name = tag.substr(0, std::min(tag.find_first_of(" /"), tag.size()));
    if (!is_one_of(kElements, name) || !attributes_are_known(tag.substr(name.size()))) return false;
    if (name == "svg" && !closes && ++drawings > 1) return false;
    open += closes ? -1 : empty ? 0 : 1;
    if (open < 0 || (open == 0 && end + 2 < all.size())) return false;  // text after </svg>
    if (name != "style" || closes) continue;
    const std::string_view style = all.substr(at, std::min(all.find('<', at), all.size()) - at);
    if (!all.substr(at + style.size()).starts_with("</style>")) return false;
    for (std::string_view forbidden : kNotInStyle) {
      if (style.find(forbidden) != std::string_view::npos) return false;
    }
  }
  return open == 0;
}

}  // namespace lt::drawing
