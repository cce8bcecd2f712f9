// Draws stacked columns.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/svg_chart.h"
#include "report/svg_frame.h"
#include "report/text.h"

namespace lt::report {
namespace {

// Averages groups of columns, so that at most canvas.columns are left.
StackedChart binned(const StackedChart& chart, const Canvas& canvas, std::vector<std::string>& names) {
  const std::size_t n = chart.x.size(), bins = std::min(n, static_cast<std::size_t>(canvas.columns));
  StackedChart result = chart;
  result.x.clear();
  for (auto& layer : result.values) layer.assign(bins, 0.0);
  for (std::size_t bin = 0; bin < bins; ++bin) {
    const std::size_t begin = bin * n / bins, end = (bin + 1) * n / bins;
    result.x.push_back(chart.x[begin]);
    const std::string first = whole_text(chart.x[begin]);
    names.push_back(end - begin == 1 ? first : first + " to " + whole_text(chart.x[end - 1]));
    for (std::size_t layer = 0; layer < chart.values.size(); ++layer) {
      for (std::size_t i = begin; i < end; ++i) {
        if (std::isfinite(chart.values[layer][i])) result.values[layer][bin] += chart.values[layer][i];
      }
      result.values[layer][bin] /= static_cast<double>(end - begin);
    }
  }
  return result;
}

std::vector<double> totals(const StackedChart& chart) {
  std::vector<double> sums(chart.x.size(), 0.0);
  for (const auto& layer : chart.values) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += std::isfinite(layer[i]) ? layer[i] : 0;
  }
  return sums;
}

// The top of the y axis. If the highest column (the first step, a save) is more than twice the 95th percentile, the
// axis ends at 1.3 times that percentile and cuts the rare columns above it.
double usual_top(std::vector<double> sums) {
  std::sort(sums.begin(), sums.end());
  const double high = sums[static_cast<std::size_t>(0.95 * static_cast<double>(sums.size() - 1))];
  return sums.back() > 2 * high && high > 0 ? 1.3 * high : sums.back();
}

// `last` is the greatest x of the chart before binning.
std::string draw(const StackedChart& chart, double last, const std::vector<std::string>& names, const Canvas& canvas) {
  const std::vector<double> sums = totals(chart);
  const std::size_t n = sums.size();
  const Frame frame(canvas, {0, static_cast<double>(n)}, outer_ticks({0, usual_top(sums)}, 5));
  std::string out = frame.open(chart.title, chart.x_label, chart.y_label);
  std::vector<Hover> hovers;
  std::vector<std::string> layers(chart.names.size());  // one path each: a rectangle per column
  const double gap = std::min(1.0, 0.15 * frame.plot_width() / static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const double from = frame.x(static_cast<double>(i)), to = frame.x(static_cast<double>(i + 1)) - gap;
    Hover& hover = hovers.emplace_back(Hover{from, to, {names[i], number_text(sums[i])}});
    double base = 0;
    for (std::size_t layer = 0; layer < chart.names.size(); ++layer) {
      const double value = chart.values[layer][i];
      hover.values.push_back(value > 0 ? number_text(value) : "");
      if (value <= 0) continue;
      const double low = std::min(base, frame.y_high()), high = std::min(base + value, frame.y_high());
      base += value;
      if (frame.y(low) - frame.y(high) < 0.05) continue;
      layers[layer] += fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z", from, frame.y(high), to - from,
                                   frame.y(low) - frame.y(high), to - from);
    }
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (!layers[layer].empty())
      out += fmt::format("<path class=\"f{}\" d=\"{}\"/>\n", layer % kChartColors, layers[layer]);
  }
  // A tick stands at the column that contains its round number.
  const auto ticks = inner_ticks({chart.x.front(), last}, static_cast<int>(frame.plot_width() / 70), /*whole=*/true);
  const auto texts = tick_texts(ticks);
  for (std::size_t k = 0; k < ticks.size(); ++k) {
    const auto column = std::upper_bound(chart.x.begin(), chart.x.end(), ticks[k] + 1e-9) - chart.x.begin() - 1;
    const auto i = static_cast<double>(std::max<std::ptrdiff_t>(0, column));
    out += frame.x_tick((frame.x(i) + frame.x(i + 1)) / 2, texts[k]);
  }
  std::vector<std::string> titles = {chart.x_label, "all"};
  titles.insert(titles.end(), chart.names.begin(), chart.names.end());
  return out + frame.hovers(titles, " " + chart.unit, hovers) + "</svg>\n";
}

}  // namespace

std::string figure(const StackedChart& chart) {
  if (chart.x.empty() || chart.names.empty()) return {};
  std::string out = open_figure(chart.title, chart.names);
  bool cut = false;
  for (const Canvas& canvas : kCanvases) {
    std::vector<std::string> names;
    const StackedChart columns = binned(chart, canvas, names);
    const std::vector<double> sums = totals(columns);
    cut = cut || usual_top(sums) < *std::max_element(sums.begin(), sums.end());
    out += draw(columns, chart.x.back(), names, canvas);
  }
  if (cut) {
    const std::vector<double> sums = totals(chart);
    out += fmt::format("<p class=\"note\">Columns that reach the top are cut; the highest step takes {} {}.</p>\n",
                       number_text(*std::max_element(sums.begin(), sums.end())), escaped(chart.unit));
  }
  return out + "</figure>\n";
}

}  // namespace lt::report
