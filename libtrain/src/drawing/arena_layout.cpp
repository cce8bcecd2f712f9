// Lays out the texts of an arena drawing. Invariant: positions follow from the number and size of the texts, so texts
// never overlap.
#include "drawing/arena_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "drawing/text.h"
#include "drawing/ticks.h"
#include "libtrain/memory/memory.h"

namespace lt::drawing {
namespace {

std::string text_at(double x, double y, const std::string& text, const char* anchor = "") {
  return fmt::format("<text{} x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", anchor, x, y, escaped(text));
}

std::vector<std::string> wrapped(const std::string& text, std::size_t characters) {
  std::vector<std::string> lines = {""};
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > characters) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return lines;
}

}  // namespace

Head draw_head(const Texts& texts, const std::string& note, const std::vector<std::size_t>& owners,
               const std::string& y_label) {
  Head head;
  double y = texts.line();
  for (const std::string& words : wrapped(note, texts.characters)) {
    head.drawn += text_at(2, y, words);
    y += texts.line();
  }
  y += 0.4 * texts.line();
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const double x = 2 + static_cast<double>(i % texts.columns) * kWidth / static_cast<double>(texts.columns);
    if (i > 0 && i % texts.columns == 0) y += 1.2 * texts.line();
    head.drawn +=
        fmt::format("<rect class=\"arena-{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
                    owners[i], x, y - 9 * texts.size, 10 * texts.size, 10 * texts.size);
    head.drawn += text_at(x + 15 * texts.size, y, std::string(kMemoryOwnerNames[owners[i]]));
  }
  y += 1.8 * texts.line();
  head.drawn += text_at(2, y, y_label);
  head.bottom = y + 0.9 * texts.line();
  return head;
}

std::string draw_axes(const Texts& texts, const Scales& scales) {
  std::string out;
  const auto y_texts = tick_texts(scales.y_ticks);
  for (std::size_t i = 0; i < y_texts.size(); ++i) {
    const double y = scales.y(scales.y_ticks[i] * scales.unit) + 4 * texts.size;
    out += text_at(kLeft - 6, y, y_texts[i], " class=\"arena-end\"");
  }
  const auto ticks = inner_ticks({0, scales.end}, static_cast<int>(10 / texts.size), true);
  const auto x_texts = tick_texts(ticks);
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double half = text_width(x_texts[i]) * texts.size / 2;
    out += text_at(std::min(scales.x(ticks[i]), kWidth - half), scales.bottom + 1.1 * texts.line(), x_texts[i],
                   " class=\"arena-mid\"");
  }
  return out + text_at((kLeft + kRight) / 2, scales.bottom + 2.3 * texts.line(),
                       "allocations and frees, in their order", " class=\"arena-mid\"");
}

}  // namespace lt::drawing
