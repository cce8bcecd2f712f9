// Draws line charts.
#include "report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "report/svg_frame.h"
#include "report/text.h"

namespace lt::report {
namespace {

struct Point {
  double x, y;
  bool after_gap = false;  // points before it were left out
};

std::vector<Point> finite_points(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<Point> points;
  bool gap = false;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    const bool finite = std::isfinite(x[i]) && std::isfinite(y[i]);
    if (finite) points.push_back({x[i], y[i], gap});
    gap = !finite;
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
    kept.back().after_gap = std::any_of(begin, end, [](const Point& p) { return p.after_gap; });
    kept.push_back(*std::max(low, high));
    kept.back().after_gap = false;
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

// A place on the x axis: steps and tokens as whole numbers.
std::string place_text(double x) { return x == std::round(x) && x < 1e9 ? whole_text(x) : number_text(x); }

// Relative moves in whole tenths: short, and without accumulated error.
std::string path_of(const Frame& frame, const std::vector<Point>& points) {
  std::string out;
  long x = 0, y = 0;
  bool alone = false;  // the last point begins a line, and no other has followed
  for (const Point& p : points) {
    const long next_x = std::lround(10 * frame.x(p.x)), next_y = std::lround(10 * frame.y(p.y));
    const bool begins = out.empty() || p.after_gap;
    const char command = out.empty() ? 'M' : begins ? 'm' : 'l';
    if (begins && alone) out += "h0";  // draws a dot
    out +=
        fmt::format("{}{:g} {:g}", command, static_cast<double>(next_x - x) / 10, static_cast<double>(next_y - y) / 10);
    x = next_x, y = next_y, alone = begins;
  }
  return alone && points.size() > 1 ? out + "h0" : out;
}

// There are more series than colours: the next ones are dashed.
bool is_dashed(const Series& series) { return series.dashed || series.color >= kChartColors; }

std::string draw_series(const Frame& frame, const Line& line, const Series& series, const Canvas& canvas) {
  const std::size_t color = series.color % kChartColors;
  const auto path = [&](const char* more, const std::vector<Point>& points, double spacing) {
    return fmt::format("<path class=\"s{}{}\" d=\"{}\"/>\n", color, more,
                       path_of(frame, thinned(points, static_cast<std::size_t>(canvas.width / spacing))));
  };
  std::string out;
  if (!line.pale.empty()) out += path(" pale", line.pale, 4);
  out += path(is_dashed(series) ? " dash" : "", line.points, line.pale.empty() ? 4 : 8);
  if (series.dots || line.points.size() == 1) {
    for (const Point& p : thinned(line.points, 20)) {
      out += fmt::format("<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", color, frame.x(p.x),
                         frame.y(p.y));
    }
  }
  return out;
}

// The text of the point of a line nearest to `at`, in a column from `low` to `high`: empty beyond the line's ends, and
// with its place if it stands outside of the column.
std::string hover_value(const Line& line, double at, Range column) {
  if (line.points.empty() || line.points.back().x < column.low || line.points.front().x > column.high) return {};
  const Point& p = nearest(line.points, at);
  const bool elsewhere = p.x < column.low || p.x > column.high;
  return number_text(p.y) + (elsewhere ? " (at " + place_text(p.x) + ")" : "");
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
    const bool first = i == 0, last = i + 1 == kept.size();
    const Range range = {first ? places.front() : (kept[i - 1] + kept[i]) / 2,
                         last ? places.back() : (kept[i] + kept[i + 1]) / 2};
    Hover& column = columns.emplace_back(Hover{
        first ? frame.left() : frame.x(range.low), last ? frame.right() : frame.x(range.high), {place_text(kept[i])}});
    for (const Line& line : lines) column.values.push_back(hover_value(line, kept[i], range));
  }
  return frame.hovers(names, "", columns);
}

// The ranges of both axes, from all points; at least one line has some.
std::pair<Range, Range> ranges_of(const std::vector<Line>& lines) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  Range x{kFar, -kFar}, y{kFar, -kFar};
  for (const Line& line : lines) {
    for (const auto* points : {&line.points, &line.pale}) {
      for (const Point& p : *points) {
        x = {std::min(x.low, p.x), std::max(x.high, p.x)};
        y = {std::min(y.low, p.y), std::max(y.high, p.y)};
      }
    }
  }
  return {x, y};
}

constexpr const char* kMarkClass = "class=\"at\"";

std::string draw_marks(const Frame& frame, const std::vector<double>& marks, Range x) {
  std::string out;
  for (const double mark : marks) {
    if (!(mark <= x.high)) continue;
    // A run that starts over goes on from step 0, before the first that is drawn.
    const double at = frame.x(std::max(mark, x.low));
    out += fmt::format("<path {} d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", kMarkClass, at, frame.top(), frame.bottom());
  }
  return out;
}

std::string draw(const LineChart& chart, const std::vector<Line>& lines, const Canvas& canvas) {
  auto [x, y] = ranges_of(lines);
  if (x.low == x.high) x = {std::max(0.0, x.low - 1), x.high + 1};
  if (chart.from_zero) y.low = std::min(0.0, y.low);
  const Frame frame(canvas, x, outer_ticks(y, 5));
  std::string out = frame.open(chart.title, chart.x_label, chart.y_label);
  const auto ticks =
      chart.x_ticks.empty() ? inner_ticks(x, static_cast<int>(frame.plot_width() / 55), chart.whole_x) : chart.x_ticks;
  const auto texts = tick_texts(ticks);
  double free_from = 0;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double at = frame.x(ticks[i]), half = text_width(texts[i]) / 2;
    if (at - half < free_from) continue;
    out += frame.x_tick(at, texts[i]);
    free_from = at + half + 8;
  }
  out += draw_marks(frame, chart.marks, x);
  for (std::size_t s = 0; s < lines.size(); ++s) {
    if (!lines[s].points.empty()) out += draw_series(frame, lines[s], chart.series[s], canvas);
  }
  return out + draw_hover(frame, chart, lines, canvas) + "</svg>\n";
}

std::string note_html(const std::string& note) {
  return note.empty() ? note : fmt::format("<p class=\"note\">{}</p>\n", escaped(note));
}

bool has_points(const Series& series) {
  const std::vector<double>& y = series.smooth.empty() ? series.y : series.smooth;
  for (std::size_t i = 0; i < std::min(series.x.size(), y.size()); ++i) {
    if (std::isfinite(series.x[i]) && std::isfinite(y[i])) return true;
  }
  return false;
}

// The drawings of a chart for all canvases; empty if it has no points.
std::string drawings(const LineChart& chart) {
  if (std::none_of(chart.series.begin(), chart.series.end(), has_points)) return {};
  std::vector<Line> lines;
  for (const Series& series : chart.series) lines.push_back(line_of(series));
  std::string out;
  for (const Canvas& canvas : kCanvases) out += draw(chart, lines, canvas);
  return out;
}

// Leaves out the series that have points on no axis. The others keep the colour of their place.
std::vector<LineChart> with_points(std::vector<LineChart> charts) {
  for (LineChart& chart : charts) {
    for (std::size_t s = 0; s < chart.series.size(); ++s) chart.series[s].color = s;
  }
  for (std::size_t s = charts.empty() ? 0 : charts[0].series.size(); s-- > 0;) {
    if (std::any_of(charts.begin(), charts.end(), [s](const LineChart& c) { return has_points(c.series[s]); }))
      continue;
    for (LineChart& chart : charts) chart.series.erase(chart.series.begin() + static_cast<std::ptrdiff_t>(s));
  }
  return charts;
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

std::string figure(const std::vector<LineChart>& by_axis, const std::string& given_note) {
  std::vector<std::string> charts, labels;
  std::vector<LegendEntry> legend;
  const std::vector<LineChart> shown = with_points(by_axis);
  for (const LineChart& chart : shown) {
    std::string drawn = drawings(chart);
    if (drawn.empty()) continue;
    charts.push_back(std::move(drawn));
    labels.push_back(chart.x_label);
  }
  if (charts.empty()) return {};
  const bool marked = charts[0].find(kMarkClass) != std::string::npos;
  const std::string space = given_note.empty() || !marked ? "" : " ";
  const std::string note = given_note + space + (marked ? shown[0].marks_mean : "");
  for (const Series& series : shown[0].series) legend.push_back({series.name, series.color, is_dashed(series)});
  std::string out = open_figure(shown[0].title, legend);
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
