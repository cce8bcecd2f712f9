// arena_svg(): every block is drawn where the packing puts it, and is_arena_svg() refuses foreign drawings.
#include "drawing/arena_drawing.h"

#include <filesystem>
#include <string>

#include "report/report.h"
#include "report/run_files.h"
#include "test_main/catch.h"

namespace {

using fixture::contains;

lt::MemoryPlan program(int blocks) {
  lt::MemoryPlan p{.name = "step", .lifetimes = {}, .packing = {}};
  for (int i = 0; i < blocks; ++i) {
    p.lifetimes.push_back({lt::Size{1024} * (1 + i % 7), 2 * i, 2 * i + 5,
                           i % 2 == 0 ? lt::MemoryOwner::activations : lt::MemoryOwner::gradients,
                           "op<" + std::to_string(i)});
  }
  p.packing = lt::pack(p.lifetimes);
  return p;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

}  // namespace

TEST_CASE("arena_svg: a rectangle a block, with its owner, operation and bytes", "[report]") {
  lt::MemoryPlan p{.name = "step", .lifetimes = {}, .packing = {}};
  p.lifetimes = {{1 << 20, 0, 3, lt::MemoryOwner::parameters, "blocks.0 gather"},
                 {1 << 19, 1, 2, lt::MemoryOwner::activations, "a<b"}};
  p.packing = {{0, 1 << 20}, (1 << 20) + (1 << 19)};
  const std::string svg = lt::drawing::arena_svg(p);
  CHECK(contains(svg, "<title>parameters, blocks.0 gather\n1.00 MiB at 0 B\nfrom event 0 to 3</title>"));
  CHECK(contains(svg, "<title>activations, a&lt;b\n512 KiB at 1.00 MiB\nfrom event 1 to 2</title>"));
  CHECK(contains(svg, "offset in the arena, KiB"));
  CHECK(contains(svg, "2 blocks in an arena of 1.50 MiB; 1.50 MiB live at most."));
  CHECK(count(svg, "<title>") == 2);
  CHECK(count(svg, ">activations</text>") == 2);  // the legend for both screens
  CHECK(count(svg, ">optimizer</text>") == 0);
  CHECK(lt::drawing::is_arena_svg(svg));
}

TEST_CASE("arena_svg: large programs stay small, an empty one is drawn too", "[report]") {
  const std::string svg = lt::drawing::arena_svg(program(5000));
  CHECK(svg.size() < 1'500'000);
  CHECK(count(svg, "<title>") == 4000);
  CHECK(contains(svg, "The 4000 largest are drawn."));
  CHECK(lt::drawing::is_arena_svg(svg));
  const std::string empty = lt::drawing::arena_svg({.name = "step", .lifetimes = {}, .packing = {}});
  CHECK(contains(empty, "0 blocks"));
  CHECK_FALSE(contains(empty, "nan"));
  CHECK(lt::drawing::is_arena_svg(empty));
}

TEST_CASE("is_arena_svg: what could run, load or reach out is refused", "[report]") {
  const std::string svg = lt::drawing::arena_svg(program(3));
  const auto with = [&](const std::string& before, const std::string& after) {
    std::string changed = svg;
    changed.replace(changed.find(before), before.size(), after);
    REQUIRE(changed != svg);
    return lt::drawing::is_arena_svg(changed);
  };
  CHECK(lt::drawing::is_arena_svg(svg));
  CHECK_FALSE(with("</svg>", "<script>alert(1)</script></svg>"));
  CHECK_FALSE(with("<rect ", "<rect onclick=\"alert(1)\" "));
  CHECK_FALSE(with("<rect ", "<rect style=\"fill:url(x)\" "));
  CHECK_FALSE(with("<rect ", "<image href=\"x\"/><rect "));
  CHECK_FALSE(with("<rect ", "<a xlink:href=\"x\"><rect "));
  CHECK_FALSE(with("<rect ", "<!-- --><rect "));
  CHECK_FALSE(with("<style>", "<style>@import 'x';"));
  CHECK_FALSE(with("<style>", "<style><g></g>"));
  CHECK_FALSE(with("fill: #0072b2", "fill: url(x)"));
  CHECK_FALSE(with("</svg>\n", "</svg><p>\n"));
  CHECK_FALSE(with("</svg>\n", "</g></svg>\n"));
  CHECK_FALSE(lt::drawing::is_arena_svg("<svg></svg>\n"));
  CHECK_FALSE(lt::drawing::is_arena_svg(""));
}

TEST_CASE("report: the arena of a run is part of its page, where it is one", "[report]") {
  const fixture::TempFolder folder;
  const std::string page = (folder.path() / "report.html").string(), svg = lt::drawing::arena_svg(program(3));
  fixture::write_text(folder.path() / "metrics.jsonl", fixture::start_line(1) + fixture::step_line(1, 5, 100));
  fixture::write_text(folder.path() / "arena.svg", svg);
  lt::report::write_report({folder.path().string()}, page);
  CHECK(contains(fixture::read_text(page), svg));
  CHECK(contains(fixture::read_text(folder.path() / "report.md"), "Chart: Arena of a training step"));
  fixture::write_text(folder.path() / "arena.svg", "<svg class=\"arena\"><script>alert(1)</script></svg>\n");
  lt::report::write_report({folder.path().string()}, page);
  CHECK_FALSE(contains(fixture::read_text(page), "alert"));
  CHECK_FALSE(contains(fixture::read_text(folder.path() / "report.md"), "Arena of a training step"));
}
