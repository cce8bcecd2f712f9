// Draws bar charts.
#include "report/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "report/svg_chart.h"
#include "report/svg_frame.h"
#include "report/text.h"

namespace lt::report {

std::string figure(const BarChart& chart) {
  std::vector<double> totals;
  for (const BarChart::Row& row : chart.rows) {
    totals.push_back(std::accumulate(row.values.begin(), row.values.end(), 0.0,
                                     [](double sum, double v) { return v > 0 && std::isfinite(v) ? sum + v : sum; }));
  }
  const double longest = totals.empty() ? 0 : *std::max_element(totals.begin(), totals.end());
  if (!(longest > 0)) return {};
  std::string out = open_figure(chart.title, chart.names.size() > 1 ? chart.names : std::vector<std::string>{});
  for (std::size_t r = 0; r < chart.rows.size(); ++r) {
    const BarChart::Row& row = chart.rows[r];
    out += fmt::format("<div class=\"row\"><span>{}</span><span>{}</span></div><div class=\"stack\">",
                       escaped(row.name), escaped(totals[r] > 0 ? chart.text(totals[r]) : "–"));
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      if (!(row.values[i] > 0.0005 * longest)) continue;
      out += fmt::format("<i class=\"k{}\" style=\"width:{:.2f}%\" title=\"{}: {}\"></i>", i % kChartColors,
                         100 * row.values[i] / longest, escaped(chart.names[i]), escaped(chart.text(row.values[i])));
    }
    out += "</div>\n";
  }
  return out + "</figure>\n";
}

std::string figure(const ShareBar& bar) {
  double total = 0;
  for (const ShareBar::Part& part : bar.parts) total += part.value;
  if (!(total > 0)) return {};
  std::vector<LegendEntry> legend;
  std::string parts;
  for (const ShareBar::Part& part : bar.parts) {
    legend.push_back({part.text, part.color});
    parts += fmt::format("<i class=\"k{}\" style=\"width:{:.2f}%\" title=\"{}\"></i>", part.color % kChartColors,
                         100 * part.value / total, escaped(part.text));
  }
  return open_figure(bar.title, legend) + "<div class=\"stack whole\">" + parts + "</div>\n</figure>\n";
}

}  // namespace lt::report
