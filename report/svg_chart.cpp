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

std::vector<Point> finite_points(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (std::isfinite(x[i]) && std::isfinite(y[i])) points.push_back({x[i], y[i]});
  }
  return points;
}

// What is drawn of a series: its line, and below it the unsmoothed one, if it has been smoothed.
struct Line {
  std::vector<Point> points, pale;
};

Line line_of(const Series& series) {
  if (series.smooth.empty()) return {finite_points(series.x, series.y), {}};
  return {finite_points(series.x, series.smooth), finite_points(series.x, series.y)};
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

// Relative moves in whole tenths: short, and without accumulated error.
std::string path_of(const Frame& frame, const std::vector<Point>& points) {
  std::string out;
  long x = 0, y = 0;
  char command = 'M';
  for (const Point& p : points) {
    const long next_x = std::lround(10 * frame.x(p.x)), next_y = std::lround(10 * frame.y(p.y));
    out +=
        fmt::format("{}{:g} {:g}", command, static_cast<double>(next_x - x) / 10, static_cast<double>(next_y - y) / 10);
    x = next_x, y = next_y, command = 'l';
  }
  return out;
}

std::string draw_series(const Frame& frame, const Line& line, const Series& series, std::size_t index,
                        const Canvas& canvas) {
  const std::size_t color = index % kChartColors;
  const auto path = [&](const char* more, const std::vector<Point>& points, double spacing) {
    return fmt::format("<path class=\"s{}{}\" d=\"{}\"/>\n", color, more,
                       path_of(frame, thinned(points, static_cast<std::size_t>(canvas.width / spacing))));
  };
  std::string out;
  if (!line.pale.empty()) out += path(" pale", line.pale, 4);
  out += path(series.dashed || index >= kChartColors ? " dash" : "", line.points, line.pale.empty() ? 4 : 8);
  if (series.dots || line.points.size() == 1) {
    for (const Point& p : thinned(line.points, 20)) {
      out += fmt::format("<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", color, frame.x(p.x),
                         frame.y(p.y));
    }
  }
  return out;
}

// Draws hover areas spread over the x axis, each with the values of all series near it.
std::string draw_hover(const Frame& frame, const LineChart& chart, const std::vector<Line>& lines,
                       const Canvas& canvas) {
  std::vector<double> places;
  for (const Line& line : lines) {
    for (const Point& p : line.points) places.push_back(p.x);
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  const std::size_t stride =
      (places.size() + static_cast<std::size_t>(canvas.columns) - 1) / static_cast<std::size_t>(canvas.columns);
  std::vector<double> kept;
  for (std::size_t i = stride / 2; i < places.size(); i += stride) kept.push_back(places[i]);
  std::vector<std::string> names = {chart.x_label};
  for (const Series& series : chart.series) names.push_back(series.name);
  std::vector<Hover> columns;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const double from = i == 0 ? frame.left() : frame.x((kept[i - 1] + kept[i]) / 2);
    const double to = i + 1 == kept.size() ? frame.right() : frame.x((kept[i] + kept[i + 1]) / 2);
    Hover& column = columns.emplace_back(Hover{from, to, {number_text(kept[i])}});
    if (kept[i] == std::round(kept[i]) && kept[i] < 1e6) column.values[0] = whole_text(kept[i]);
    for (const Line& line : lines) {
      const Point& p = nearest(line.points, kept[i]);
      const bool elsewhere = p.x != kept[i] && line.points.size() * 4 < places.size();
      column.values.push_back(number_text(p.y) + (elsewhere ? " (at " + number_text(p.x) + ")" : ""));
    }
  }
  return frame.hovers(names, "", columns);
}

std::string draw(const LineChart& chart, const std::vector<Line>& lines, const Canvas& canvas) {
  const Point& start = lines[0].points[0];
  Range x{start.x, start.x}, y{start.y, start.y};
  for (const Line& line : lines) {
    for (const auto* points : {&line.points, &line.pale}) {
      for (const Point& p : *points) {
        x = {std::min(x.low, p.x), std::max(x.high, p.x)};
        y = {std::min(y.low, p.y), std::max(y.high, p.y)};
      }
    }
  }
  if (x.low == x.high) x = {x.low - 1, x.high + 1};
  if (chart.from_zero) y.low = std::min(0.0, y.low);
  const Frame frame(canvas, x, outer_ticks(y, 5));
  std::string out = frame.open(chart.title, chart.x_label, chart.y_label);
  const auto ticks = chart.x_ticks.empty()
                         ? inner_ticks(x, static_cast<int>(frame.plot_width() / 55), /*whole=*/x.high - x.low > 5)
                         : chart.x_ticks;
  const auto texts = tick_texts(ticks);
  double free_from = 0;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double at = frame.x(ticks[i]), half = text_width(texts[i]) / 2;
    if (at - half < free_from) continue;
    out += frame.x_tick(at, texts[i]);
    free_from = at + half + 8;
  }
  for (std::size_t s = 0; s < lines.size(); ++s) out += draw_series(frame, lines[s], chart.series[s], s, canvas);
  return out + draw_hover(frame, chart, lines, canvas) + "</svg>\n";
}

std::string note_html(const std::string& note) {
  return note.empty() ? note : fmt::format("<p class=\"note\">{}</p>\n", escaped(note));
}

// The drawings of a chart for all canvases; empty if it has no points. `names`: of the series that have points.
std::string drawings(const LineChart& chart, std::vector<std::string>& names) {
  LineChart drawn = chart;
  drawn.series.clear();
  names.clear();
  std::vector<Line> lines;
  for (const Series& series : chart.series) {
    if (Line line = line_of(series); !line.points.empty()) {
      lines.push_back(std::move(line));
      names.push_back(series.name);
      drawn.series.push_back(series);
    }
  }
  std::string out;
  if (lines.empty()) return out;
  for (const Canvas& canvas : kCanvases) out += draw(drawn, lines, canvas);
  return out;
}

}  // namespace

std::vector<double> smoothed(const std::vector<double>& values, std::size_t window) {
  std::vector<double> result;
  const std::size_t half = window / 2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    double sum = 0, count = 0;
    for (std::size_t j = i - std::min(i, half); j < std::min(values.size(), i + half + 1); ++j) {
      if (!std::isfinite(values[j])) continue;
      sum += values[j];
      ++count;
    }
    result.push_back(count > 0 ? sum / count : std::nan(""));
  }
  return result;
}

std::string figure(const LineChart& chart) { return figure(std::vector{chart}); }

std::string figure(const std::vector<LineChart>& by_axis, const std::string& note) {
  std::vector<std::string> names, charts, labels;
  for (const LineChart& chart : by_axis) {
    std::vector<std::string> drawn_names;
    std::string drawn = drawings(chart, drawn_names);
    if (drawn.empty()) continue;
    names = drawn_names;
    charts.push_back(std::move(drawn));
    labels.push_back(chart.x_label);
  }
  if (charts.empty()) return {};
  std::string out = open_figure(by_axis[0].title, names);
  if (charts.size() == 1) return out + charts[0] + note_html(note) + "</figure>\n";
  out += "<form class=\"axes\">x axis:";
  for (std::size_t i = 0; i < charts.size(); ++i) {
    out += fmt::format(" <label><input type=\"radio\" name=\"x\" class=\"x{}\"{}/> {}</label>", i,
                       i == 0 ? " checked=\"\"" : "", escaped(labels[i]));
  }
  out += "</form>\n";
  for (std::size_t i = 0; i < charts.size(); ++i) out += fmt::format("<div class=\"x{}\">{}</div>\n", i, charts[i]);
  return out + note_html(note) + "</figure>\n";
}

}  // namespace lt::report
