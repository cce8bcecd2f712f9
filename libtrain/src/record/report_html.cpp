// The report's page: style, blocks as HTML, and a few lines of script that show a chart's values under the pointer.
// Invariant: the page needs no script to be read and refers to nothing outside itself.
#include <fmt/format.h>

#include <algorithm>

#include "record/report_document.h"
#include "record/report_text.h"
#include "record/svg_chart.h"

namespace lt::report {
namespace {

// Colours: Okabe and Ito (2008), darkened or lightened to stand on the background, in an order in which neighbours
// differ.
constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1b1f24; --soft: #59636e; --rule: #d5dae0; --panel: #f5f7f9;
  --c0: #0072b2; --c1: #d55e00; --c2: #008f68; --c3: #b4588f;
  --c4: #c98a00; --c5: #3d9bd1; --c6: #7a5bb5; --c7: #8a6f4a;
  --c8: #8b949e; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --ink: #e6eaef; --soft: #9aa5b1; --rule: #333b45;
  --panel: #1c2229; --c0: #4aa8e0; --c1: #f08a3c; --c2: #2fbf95; --c3: #d98bb9; --c4: #e8b53a; --c5: #86c5ee;
  --c6: #a68be0; --c7: #bfa27a; --c8: #7d8793; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1rem 3rem; max-width: 60rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; }
p { margin: .5rem 0 1rem; }
.note { color: var(--soft); font-size: .85rem; margin: .25rem 0 0; }
.scroll { overflow-x: auto; margin: .5rem 0 1.25rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
table.full { width: 100%; }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child, .text th, .text td { text-align: left; }
.text td { white-space: normal; } .text td:last-child { min-width: 9rem; } .text td:first-child { white-space: nowrap; }
.pairs td { white-space: normal; }
@media (max-width: 30rem) { table { font-size: .82rem; } th, td { padding-right: .55rem; } }
td.bar { width: 40%; min-width: 5rem; padding-right: 0; }
td.bar i { display: block; height: .75rem; min-width: 1px; border-radius: 2px; }
figure { margin: 1rem 0 1.75rem; }
figcaption { font-weight: 600; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: .25rem 0 .5rem; padding: 0;
  font-size: .85rem; color: var(--soft); }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; border-radius: 2px;
  vertical-align: -.05rem; }
svg { width: 100%; height: auto; font: 12px system-ui, "Segoe UI", Roboto, Arial, sans-serif; }
svg.narrow { display: none; max-width: 30rem; }
@media (max-width: 43rem) { svg.wide { display: none; } svg.narrow { display: block; } }
svg text { fill: var(--soft); } svg .end { text-anchor: end; } svg .mid { text-anchor: middle; }
svg path { fill: none; stroke-width: 1.8; stroke-linejoin: round; } svg .dash { stroke-dasharray: 5 4; }
svg .grid { stroke: var(--rule); } svg .base { stroke: var(--soft); }
svg .h { fill: transparent; } svg .h:hover { fill: var(--soft); fill-opacity: .15; }
pre { background: var(--panel); padding: .75rem 1rem; border-radius: 6px; overflow-x: auto; white-space: pre-wrap;
  font: .85rem/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; margin: .5rem 0 1rem; }
summary { cursor: pointer; font-weight: 600; }
#tip { position: fixed; display: none; pointer-events: none; white-space: pre; padding: .4rem .6rem; font-size: .8rem;
  line-height: 1.4; background: var(--panel); border: 1px solid var(--rule); border-radius: 6px; z-index: 1; }
@media print { body { max-width: none; } }
)css";

// Takes the native tooltips of the hover areas over, to show them at once and also where a finger rests.
constexpr const char* kScript = R"js(
const tip = document.body.appendChild(document.createElement('div'));
tip.id = 'tip';
for (const area of document.querySelectorAll('svg .h')) {
  const title = area.querySelector('title'), text = title.textContent;
  title.remove();
  const show = e => {
    tip.textContent = text;
    tip.style.display = 'block';
    const x = e.clientX + 14, right = document.documentElement.clientWidth - tip.offsetWidth - 4;
    tip.style.left = Math.max(4, x > right ? e.clientX - tip.offsetWidth - 14 : x) + 'px';
    tip.style.top = Math.max(4, Math.min(e.clientY + 14, window.innerHeight - tip.offsetHeight - 4)) + 'px';
  };
  area.addEventListener('pointermove', show);
  area.addEventListener('pointerdown', show);
  area.addEventListener('pointerleave', () => { tip.style.display = 'none'; });
}
)js";

std::string color_rules() {
  std::string out;
  for (int i = 0; i < kChartColors; ++i) {
    out += fmt::format(
        ".s{0} {{ stroke: var(--c{0}); }} .f{0} {{ fill: var(--c{0}); }} .k{0} {{ background: var(--c{0}); }}\n", i);
  }
  return out;
}

// An empty cell for a share of 0.
std::string bar_cell(double share, std::size_t color) {
  if (!(share > 0)) return "<td class=\"bar\"></td>";
  return fmt::format("<td class=\"bar\"><i class=\"k{}\" style=\"width:{:.1f}%\"></i></td>", color % kChartColors,
                     100 * share);
}

struct HtmlWriter {
  std::string out;

  void operator()(const Heading& h) { out += fmt::format("<h{0}>{1}</h{0}>\n", h.level, escaped(h.text)); }
  void operator()(const Paragraph& p) { out += fmt::format("<p>{}</p>\n", escaped(p.text)); }
  void operator()(const Figure& f) { out += f.html; }

  void operator()(const Table& t) {
    const bool bars = !t.bars.empty();
    out += fmt::format("<div class=\"scroll\"><table class=\"{}{}\">\n",
                       t.text             ? "text "
                       : t.header.empty() ? "pairs "
                                          : "",
                       bars ? "full" : "");
    if (!t.header.empty()) row("th", t.header, bars ? "<th></th>" : "");
    for (std::size_t i = 0; i < t.rows.size(); ++i) {
      const double share = bars ? std::clamp(t.bars[i], 0.0, 1.0) : 0;
      row("td", t.rows[i], bars ? bar_cell(share, t.colored ? i : 0) : "");
    }
    out += "</table></div>\n";
  }

  void operator()(const Preformatted& p) {
    const std::string text = fmt::format("<pre>{}</pre>", escaped(p.text));
    if (p.folded) {
      out += fmt::format("<details><summary>{}</summary>{}</details>\n", escaped(p.title), text);
    } else {
      out += fmt::format("<h3>{}</h3>\n{}\n", escaped(p.title), text);
    }
  }

  void row(const char* tag, const std::vector<std::string>& cells, const std::string& last) {
    out += "<tr>";
    for (const std::string& cell : cells) out += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
    out += last + "</tr>\n";
  }
};

}  // namespace

std::string to_html(const Document& document) {
  HtmlWriter writer;
  for (const Block& block : document.blocks) std::visit(writer, block);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n{}<script>{}</script>\n</body>\n</html>\n",
      escaped(document.title), kStyle, color_rules(), writer.out, kScript);
}

}  // namespace lt::report
