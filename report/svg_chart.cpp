// Draws line charts.
#include "report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/svg_frame.h"
#include "report/text.h"

namespace lt::report {
namespace {

struct Point {
  double x, y;
};

std::vector<Point> finite_points(const Series& series) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    if (std::isfinite(series.x[i]) && std::isfinite(series.y[i])) points.push_back({series.x[i], series.y[i]});
  }
  return points;
}

// Keeps the lowest and the highest point of each of `bins` groups, in order, so that spikes remain visible.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t bins) {
  if (points.size() <= 2 * bins) return points;
  const auto lower = [](const Point& a, const Point& b) { return a.y < b.y; };
  std::vector<Point> kept = {points.front()};
  for (std::size_t bin = 0; bin < bins; ++bin) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(bin * points.size() / bins);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((bin + 1) * points.size() / bins);
    const auto [low, high] = std::minmax_element(begin, end, lower);
    kept.push_back(*std::min(low, high));
    kept.push_back(*std::max(low, high));
  }
  kept.push_back(points.back());
  return kept;
}

const Point& nearest(const std::vector<Point>& points, double x) {
  const auto after =
      std::lower_bound(points.begin(), points.end(), x, [](const Point& p, double at) { return p.x < at; });
  if (after == points.begin()) return *after;
  if (after == points.end() || x - (after - 1)->x < after->x - x) return *(after - 1);
  return *after;
}

std::string draw_series(const Frame& frame, const std::vector<Point>& points, const Series& series, std::size_t index,
                        const Canvas& canvas) {
  const std::size_t color = index % kChartColors;
  std::string out =
      fmt::format("<path class=\"s{}{}\" d=\"", color, series.dashed || index >= kChartColors ? " dash" : "");
  char command = 'M';
  for (const Point& p : thinned(points, static_cast<std::size_t>(canvas.width / 3))) {
    out += fmt::format("{}{:.1f} {:.1f}", command, frame.x(p.x), frame.y(p.y));
    command = 'L';
  }
  out += "\"/>\n";
  if (series.dots || points.size() == 1) {
    for (const Point& p : thinned(points, 20)) {
      out += fmt::format("<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", color, frame.x(p.x),
                         frame.y(p.y));
    }
  }
  return out;
}

// Draws hover areas spread over the x axis, each with the values of all series near it.
std::string draw_hover(const Frame& frame, const LineChart& chart, const std::vector<std::vector<Point>>& points,
                       const Canvas& canvas) {
  std::vector<double> places;
  for (const auto& line : points) {
    for (const Point& p : line) places.push_back(p.x);
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  const std::size_t stride =
      (places.size() + static_cast<std::size_t>(canvas.columns) - 1) / static_cast<std::size_t>(canvas.columns);
  std::vector<double> kept;
  for (std::size_t i = stride / 2; i < places.size(); i += stride) kept.push_back(places[i]);
  std::string out;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const double from = i == 0 ? frame.left() : frame.x((kept[i - 1] + kept[i]) / 2);
    const double to = i + 1 == kept.size() ? frame.right() : frame.x((kept[i] + kept[i + 1]) / 2);
    std::string text = fmt::format("{} {:g}", chart.x_label, kept[i]);
    for (std::size_t s = 0; s < points.size(); ++s) {
      const Point& p = nearest(points[s], kept[i]);
      const bool elsewhere = p.x != kept[i] && points[s].size() * 4 < places.size();
      text += fmt::format("\n{}: {}{}", chart.series[s].name, number_text(p.y),
                          elsewhere ? fmt::format(" (at {:g})", p.x) : "");
    }
    out += frame.hover(from, to, text);
  }
  return out;
}

std::string draw(const LineChart& chart, const std::vector<std::vector<Point>>& points, const Canvas& canvas) {
  Range x{points[0][0].x, points[0][0].x}, y{points[0][0].y, points[0][0].y};
  for (const auto& line : points) {
    for (const Point& p : line) {
      x = {std::min(x.low, p.x), std::max(x.high, p.x)};
      y = {std::min(y.low, p.y), std::max(y.high, p.y)};
    }
  }
  if (x.low == x.high) x = {x.low - 1, x.high + 1};
  if (chart.from_zero) y.low = std::min(0.0, y.low);
  const Frame frame(canvas, x, outer_ticks(y, 5));
  std::string out = frame.open(chart.title, chart.x_label, chart.y_label);
  const auto ticks =
      chart.x_ticks.empty() ? inner_ticks(x, static_cast<int>(frame.plot_width() / 55), /*whole=*/true) : chart.x_ticks;
  const auto texts = tick_texts(ticks);
  double free_from = 0;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double at = frame.x(ticks[i]), half = text_width(texts[i]) / 2;
    if (at - half < free_from) continue;
    out += frame.x_tick(at, texts[i]);
    free_from = at + half + 8;
  }
  for (std::size_t s = 0; s < points.size(); ++s) out += draw_series(frame, points[s], chart.series[s], s, canvas);
  return out + draw_hover(frame, chart, points, canvas) + "</svg>\n";
}

}  // namespace

std::string figure(const LineChart& chart) {
  LineChart drawn = chart;
  drawn.series.clear();
  std::vector<std::vector<Point>> points;
  std::vector<std::string> names;
  for (const Series& series : chart.series) {
    if (auto line = finite_points(series); !line.empty()) {
      points.push_back(std::move(line));
      names.push_back(series.name);
      drawn.series.push_back(series);
    }
  }
  if (points.empty()) return {};
  std::string out = open_figure(chart.title, names);
  for (const Canvas& canvas : kCanvases) out += draw(drawn, points, canvas);
  return out + "</figure>\n";
}

}  // namespace lt::report
