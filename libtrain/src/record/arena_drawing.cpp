// The picture of an arena. Invariant: blocks are drawn once, texts twice, for wide and for narrow screens, where they
// are as much larger as the picture is smaller.
#include "record/arena_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "record/report_text.h"
#include "record/svg_frame.h"

namespace lt {
namespace {

using report::bytes_text;
using report::escaped;
using report::Range;

constexpr std::size_t kBlocks = 4000;   // drawn; about 1.2 MB
constexpr std::size_t kOperation = 80;  // characters of an operation's name
constexpr double kWidth = 860, kHeight = 640;
constexpr Range kAcross = {84, 844}, kDown = {190, 560};  // the area between the axes
constexpr double kNarrow = 2;                             // a text on a narrow screen against one on a wide screen
constexpr int kLegendColumns = 3;

// Colours of the owners, in their order, as the charts of a report have them; then light and dark of the same.
constexpr const char* kStyle = R"css(
.arena { width: 100%; height: auto; background: var(--arena-page); font: 12px system-ui, "Segoe UI", Roboto, Arial, sans-serif;
  --arena-page: #ffffff; --arena-ink: #59636e; --arena-rule: #d5dae0; }
.arena text { fill: var(--arena-ink); } .arena .arena-end { text-anchor: end; } .arena .arena-mid { text-anchor: middle; }
.arena .arena-narrow { display: none; font-size: 24px; }
.arena line { stroke: var(--arena-rule); } .arena .arena-size { stroke: var(--arena-ink); stroke-dasharray: 5 4; }
.arena rect { stroke: var(--arena-page); stroke-width: .4; } .arena rect:hover { opacity: .6; }
.arena .arena-0 { fill: #0072b2; } .arena .arena-1 { fill: #d55e00; } .arena .arena-2 { fill: #008f68; }
.arena .arena-3 { fill: #b4588f; } .arena .arena-4 { fill: #c98a00; } .arena .arena-5 { fill: #3d9bd1; }
.arena .arena-6 { fill: #7a5bb5; } .arena .arena-7 { fill: #8a6f4a; }
@media (max-width: 43rem) { .arena .arena-narrow { display: block; } .arena .arena-wide { display: none; } }
@media (prefers-color-scheme: dark) {
  .arena { --arena-page: #14181d; --arena-ink: #9aa5b1; --arena-rule: #333b45; }
  .arena .arena-0 { fill: #4aa8e0; } .arena .arena-1 { fill: #f08a3c; } .arena .arena-2 { fill: #2fbf95; }
  .arena .arena-3 { fill: #d98bb9; } .arena .arena-4 { fill: #e8b53a; } .arena .arena-5 { fill: #86c5ee; }
  .arena .arena-6 { fill: #a68be0; } .arena .arena-7 { fill: #bfa27a; }
}
)css";

struct Scales {
  double end = 1;   // of time
  double unit = 1;  // bytes of a unit of the y axis
  const char* unit_name = "B";
  std::vector<double> y_ticks;  // in units

  double x(double time) const { return kAcross.low + time / end * (kAcross.high - kAcross.low); }
  double y(double bytes) const { return kDown.high - bytes / unit / y_ticks.back() * (kDown.high - kDown.low); }
};

Scales scales_of(const MemoryProgram& program) {
  Scales s;
  for (const Lifetime& block : program.lifetimes) s.end = std::max(s.end, static_cast<double>(block.end));
  for (const char* name : {"KiB", "MiB", "GiB"}) {
    if (static_cast<double>(program.packing.bytes) < 2 * 1024 * s.unit) break;
    s.unit *= 1024;
    s.unit_name = name;
  }
  s.y_ticks = report::outer_ticks({0, static_cast<double>(program.packing.bytes) / s.unit}, 5);
  return s;
}

// The blocks that are drawn, in the order of time: all, or those of the most bytes x time.
std::vector<std::size_t> drawn_blocks(const std::vector<Lifetime>& blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (blocks.size() <= kBlocks) return order;
  const auto area = [&](std::size_t i) {
    return static_cast<double>(blocks[i].bytes) * static_cast<double>(blocks[i].end - blocks[i].begin);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return area(a) > area(b); });
  order.resize(kBlocks);
  std::sort(order.begin(), order.end());
  return order;
}

std::string draw_blocks(const MemoryProgram& program, const Scales& scales, const std::vector<std::size_t>& drawn) {
  std::string out;
  for (std::size_t owner = 0; owner < kMemoryOwners; ++owner) {
    std::string group;
    for (std::size_t i : drawn) {
      const Lifetime& block = program.lifetimes[i];
      if (static_cast<std::size_t>(block.owner) != owner) continue;
      const auto offset = static_cast<double>(program.packing.offsets[i]), bytes = static_cast<double>(block.bytes);
      const double left = scales.x(static_cast<double>(block.begin)), top = scales.y(offset + bytes);
      group += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.2f}\" width=\"{:.1f}\" height=\"{:.2f}\"><title>{}, {}\n{} at {}\n"
          "from {} to {}</title></rect>\n",
          left, top, std::max(0.3, scales.x(static_cast<double>(block.end)) - left),
          std::max(0.3, scales.y(offset) - top), kMemoryOwnerNames[owner],
          escaped(std::string_view(block.operation).substr(0, kOperation)), bytes_text(bytes), bytes_text(offset),
          block.begin, block.end);
    }
    if (!group.empty()) out += fmt::format("<g class=\"arena-{}\">\n{}</g>\n", owner, group);
  }
  return out;
}

// The texts of one screen: `size` is how much larger they are than the 12 px of the other.
struct Texts {
  const char* css_class;
  double size;
  std::size_t characters;  // of a line
};
constexpr std::array<Texts, 2> kTexts = {{{"arena-wide", 1, 118}, {"arena-narrow", kNarrow, 59}}};

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

std::string draw_texts(const Texts& texts, const Scales& scales, const std::string& note,
                       const std::vector<std::size_t>& owners) {
  const double line = 15 * texts.size;
  std::string out = fmt::format("<g class=\"{}\">\n", texts.css_class);
  double y = line;
  for (const std::string& words : wrapped(note, texts.characters)) {
    out += text_at(2, y, words);
    y += line;
  }
  out += text_at(2, kDown.low - 0.7 * line, fmt::format("offset in the arena, {}", scales.unit_name));
  const auto y_texts = report::tick_texts(scales.y_ticks);
  for (std::size_t i = 0; i < y_texts.size(); ++i) {
    out += text_at(kAcross.low - 6, scales.y(scales.y_ticks[i] * scales.unit) + 4 * texts.size, y_texts[i],
                   " class=\"arena-end\"");
  }
  const auto ticks = report::inner_ticks({0, scales.end}, static_cast<int>(10 / texts.size), true);
  const auto x_texts = report::tick_texts(ticks);
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double half = report::text_width(x_texts[i]) * texts.size / 2;
    out += text_at(std::min(scales.x(ticks[i]), kWidth - half), kDown.high + line, x_texts[i], " class=\"arena-mid\"");
  }
  out += text_at((kAcross.low + kAcross.high) / 2, kDown.high + 2 * line, "allocations and frees, in their order",
                 " class=\"arena-mid\"");
  // The legend stands between the note and the axis.
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const double x = 2 + static_cast<double>(i % kLegendColumns) * kWidth / kLegendColumns;
    const double at = kDown.low - (3.2 - static_cast<double>(i / kLegendColumns)) * line - 0.3 * line;
    out += fmt::format("<rect class=\"arena-{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
                       owners[i], x, at - 9 * texts.size, 10 * texts.size, 10 * texts.size);
    out += text_at(x + 15 * texts.size, at, std::string(kMemoryOwnerNames[owners[i]]));
  }
  return out + "</g>\n";
}

}  // namespace

std::string arena_svg(const MemoryProgram& program) {
  const Scales scales = scales_of(program);
  const std::vector<std::size_t> drawn = drawn_blocks(program.lifetimes);
  std::array<bool, kMemoryOwners> present{};
  for (std::size_t i : drawn) present[static_cast<std::size_t>(program.lifetimes[i].owner)] = true;
  std::vector<std::size_t> owners;
  for (std::size_t owner = 0; owner < kMemoryOwners; ++owner) {
    if (present[owner]) owners.push_back(owner);
  }
  std::string note = fmt::format("Program \"{}\": {} blocks in an arena of {}; {} live at most.", program.name,
                                 program.lifetimes.size(), bytes_text(static_cast<double>(program.packing.bytes)),
                                 bytes_text(static_cast<double>(most_live_bytes(program.lifetimes))));
  if (drawn.size() < program.lifetimes.size()) note += fmt::format(" The {} largest are drawn.", drawn.size());

  std::string out = fmt::format(
      "<svg class=\"arena\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:g} {:g}\" role=\"img\" "
      "aria-label=\"Blocks in the arena over time\">\n<style>{}</style>\n",
      kWidth, kHeight, kStyle);
  for (double tick : scales.y_ticks) {
    const double y = scales.y(tick * scales.unit);
    out += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kAcross.low, y,
                       kAcross.high, y);
  }
  out += draw_blocks(program, scales, drawn);
  const double size = scales.y(static_cast<double>(program.packing.bytes));
  out += fmt::format("<line class=\"arena-size\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                     kAcross.low, size, kAcross.high, size);
  for (const Texts& texts : kTexts) out += draw_texts(texts, scales, note, owners);
  return out + "</svg>\n";
}

}  // namespace lt
