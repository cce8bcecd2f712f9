// Draws an arena. Invariant: blocks are drawn once, and texts twice: for wide and for narrow screens. Texts for narrow
// screens are larger by the factor by which the picture shrinks, and the blocks move down to make room.
#include "drawing/arena_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "drawing/arena_layout.h"
#include "drawing/text.h"
#include "drawing/ticks.h"

namespace lt::drawing {
namespace {

constexpr std::size_t kBlocks = 4000;   // drawn at most; about 1.2 MB
constexpr std::size_t kOperation = 80;  // characters of an operation's name that are shown
// The colours arena-0 to arena-7 belong to the owners in order and match the charts of a report. Light first, then
// dark.
constexpr const char* kStyle = R"css(
.arena { width: 100%; height: auto; background: var(--arena-page);
  font: 12px system-ui, "Segoe UI", Roboto, Arial, sans-serif;
  --arena-page: #ffffff; --arena-ink: #59636e; --arena-rule: #d5dae0; }
.arena text { fill: var(--arena-ink); }
.arena .arena-end { text-anchor: end; } .arena .arena-mid { text-anchor: middle; }
.arena .arena-narrow { display: none; font-size: 28px; }
.arena line { stroke: var(--arena-rule); } .arena .arena-size { stroke: var(--arena-ink); stroke-dasharray: 5 4; }
.arena rect { stroke: var(--arena-page); stroke-width: .4; } .arena .arena-thin { stroke: none; }
.arena rect:hover { opacity: .6; }
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

Scales scales_of(const MemoryPlan& plan) {
  Scales s;
  for (const Lifetime& block : plan.lifetimes) s.end = std::max(s.end, static_cast<double>(block.end));
  for (const char* name : {"KiB", "MiB", "GiB"}) {
    if (static_cast<double>(plan.packing.bytes) < 2 * 1024 * s.unit) break;
    s.unit *= 1024;
    s.unit_name = name;
  }
  s.y_ticks = outer_ticks({0, static_cast<double>(plan.packing.bytes) / s.unit}, 5);
  return s;
}

// The blocks to draw, in order of time: all of them, or the kBlocks with the most bytes x time.
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

std::string draw_blocks(const MemoryPlan& plan, const Scales& scales, const std::vector<std::size_t>& drawn) {
  std::string out;
  for (std::size_t owner = 0; owner < kMemoryOwners; ++owner) {
    std::string group;
    for (std::size_t i : drawn) {
      const Lifetime& block = plan.lifetimes[i];
      if (static_cast<std::size_t>(block.owner) != owner) continue;
      const auto offset = static_cast<double>(plan.packing.offsets[i]), bytes = static_cast<double>(block.bytes);
      const double left = scales.x(static_cast<double>(block.begin)), top = scales.y(offset + bytes);
      const double width = std::max(0.3, scales.x(static_cast<double>(block.end)) - left),
                   height = std::max(0.3, scales.y(offset) - top);
      // Thin blocks have no outline: it would cover their colour.
      group += fmt::format(
          "<rect{} x=\"{:.1f}\" y=\"{:.2f}\" width=\"{:.1f}\" height=\"{:.2f}\"><title>{}{}{}\n{} at {}\n"
          "from event {} to {}</title></rect>\n",
          width < 2 || height < 2 ? " class=\"arena-thin\"" : "", left, top, width, height, kMemoryOwnerNames[owner],
          block.operation.empty() ? "" : ", ", escaped(std::string_view(block.operation).substr(0, kOperation)),
          bytes_text(bytes), bytes_text(offset), block.begin, block.end);
    }
    if (!group.empty()) out += fmt::format("<g class=\"arena-{}\">\n{}</g>\n", owner, group);
  }
  return out;
}

std::string draw_area(const MemoryPlan& plan, const Scales& scales, const std::vector<std::size_t>& drawn) {
  std::string out;
  const auto line = [&](const char* css_class, double y) {
    out += fmt::format("<line{} x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css_class, kLeft, y,
                       kRight, y);
  };
  for (double tick : scales.y_ticks) line("", scales.y(tick * scales.unit));
  out += draw_blocks(plan, scales, drawn);
  line(" class=\"arena-size\"", scales.y(static_cast<double>(plan.packing.bytes)));
  return out;
}

// The style that moves the area from its place in `wide` to its place in `narrow`.
std::string narrow_style(const Scales& wide, const Scales& narrow) {
  const double scale = (narrow.bottom - narrow.top) / (wide.bottom - wide.top);
  return fmt::format(
      "@media (max-width: 43rem) {{ .arena .arena-area {{ transform: translate(0, {:.2f}px) scale(1, {:.4f}); }} }}\n",
      narrow.top - scale * wide.top, scale);
}

}  // namespace

std::string arena_svg(const MemoryPlan& plan) {
  Scales scales = scales_of(plan);
  const std::vector<std::size_t> drawn = drawn_blocks(plan.lifetimes);
  std::array<bool, kMemoryOwners> present{};
  for (std::size_t i : drawn) present[static_cast<std::size_t>(plan.lifetimes[i].owner)] = true;
  std::vector<std::size_t> owners;
  for (std::size_t owner = 0; owner < kMemoryOwners; ++owner) {
    if (present[owner]) owners.push_back(owner);
  }
  std::string note = fmt::format("Program \"{}\": {} blocks in an arena of {}; {} live at most.", plan.name,
                                 plan.lifetimes.size(), bytes_text(static_cast<double>(plan.packing.bytes)),
                                 bytes_text(static_cast<double>(most_live_bytes(plan.lifetimes))));
  if (drawn.size() < plan.lifetimes.size()) note += fmt::format(" The {} largest are drawn.", drawn.size());

  const std::string y_label = fmt::format("offset in the arena, {}", scales.unit_name);
  const Head head = draw_head(kWide, note, owners, y_label), narrow_head = draw_head(kNarrow, note, owners, y_label);
  scales.top = head.bottom;
  Scales narrow = scales;
  narrow.top = narrow_head.bottom, narrow.bottom = kNarrow.bottom();
  std::string out = fmt::format(
      "<svg class=\"arena\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:g} {:g}\" role=\"img\" "
      "aria-label=\"Blocks in the arena over time\">\n<style>{}{}</style>\n",
      kWidth, kHeight, kStyle, narrow_style(scales, narrow));
  out += fmt::format("<g class=\"arena-area\">\n{}</g>\n", draw_area(plan, scales, drawn));
  out += fmt::format("<g class=\"{}\">\n{}{}</g>\n", kWide.css_class, head.drawn, draw_axes(kWide, scales));
  out += fmt::format("<g class=\"{}\">\n{}{}</g>\n", kNarrow.css_class, narrow_head.drawn, draw_axes(kNarrow, narrow));
  return out + "</svg>\n";
}

}  // namespace lt::drawing
