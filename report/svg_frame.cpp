// Draws the axes of a chart. The left margin follows from the widest text in it.
#include "report/svg_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/svg_chart.h"
#include "report/text.h"

namespace lt::report {
Frame::Frame(const Canvas& canvas, Range x, std::vector<double> y_ticks)
    : canvas_(canvas), x_(x), y_{y_ticks.front(), y_ticks.back()}, y_ticks_(std::move(y_ticks)) {
  y_texts_ = tick_texts(y_ticks_);
  double widest = 0;
  for (const std::string& text : y_texts_) widest = std::max(widest, text_width(text));
  left_ = widest + 10;
  right_ = canvas.width - 16;
  top_ = 26;
  bottom_ = canvas.height - 42;
}

std::string Frame::open(const std::string& title, const std::string& x_label, const std::string& y_label) const {
  std::string out = fmt::format(
      "<svg class=\"{}\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:g} {:g}\" role=\"img\" "
      "aria-label=\"{}\">\n",
      canvas_.css_class, canvas_.width, canvas_.height, escaped(title));
  out += fmt::format("<text class=\"axis\" x=\"2\" y=\"12\">{}</text>\n", escaped(y_label));
  for (std::size_t i = 0; i < y_ticks_.size(); ++i) {
    const double at = y(y_ticks_[i]);
    out += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                       i == 0 ? "base" : "grid", left_, at, right_, at);
    out += fmt::format("<text class=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", left_ - 6, at + 4, y_texts_[i]);
  }
  out += fmt::format("<text class=\"axis mid\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", (left_ + right_) / 2,
                     canvas_.height - 6, escaped(x_label));
  return out;
}

std::string Frame::x_tick(double position, const std::string& text) const {
  const double half = text_width(text) / 2;
  const double middle = std::clamp(position, half, canvas_.width - half);
  return fmt::format(
      "<line class=\"base\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>"
      "<text class=\"mid\" x=\"{3:.1f}\" y=\"{4:.1f}\">{5}</text>\n",
      position, bottom_, bottom_ + 4, middle, bottom_ + 17, text);
}

std::string Frame::hovers(const std::vector<std::string>& names, const std::string& unit,
                          const std::vector<Hover>& columns) const {
  if (columns.empty()) return {};
  std::string titles, edges, values;
  for (const std::string& name : names) titles += (titles.empty() ? "" : "&#10;") + escaped(name);
  for (const Hover& column : columns) {
    edges += fmt::format("{:g} ", std::round(10 * column.from) / 10);
    for (std::size_t i = 0; i < column.values.size(); ++i) values += (i == 0 ? "" : "|") + escaped(column.values[i]);
    values += ";";
  }
  values.pop_back();
  return fmt::format(
      "<rect class=\"h\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" data-names=\"{}\" "
      "data-unit=\"{}\" data-edges=\"{}{:g}\" data-values=\"{}\"/>\n",
      left_, top_, right_ - left_, bottom_ - top_, titles, escaped(unit), edges,
      std::round(10 * columns.back().to) / 10, values);
}

std::string open_figure(const std::string& title, const std::vector<LegendEntry>& legend) {
  std::string out = fmt::format("<figure>\n<figcaption>{}</figcaption>\n", escaped(title));
  if (legend.empty()) return out;
  out += "<ul class=\"legend\">";
  for (const LegendEntry& entry : legend) {
    out += fmt::format("<li><i class=\"k{}{}\"></i>{}</li>", entry.color % kChartColors, entry.dashed ? " dash" : "",
                       escaped(entry.name));
  }
  return out + "</ul>\n";
}

std::string open_figure(const std::string& title, const std::vector<std::string>& names) {
  std::vector<LegendEntry> legend;
  for (const std::string& name : names) legend.push_back({name, legend.size()});
  return open_figure(title, legend);
}

std::string number_text(double value) {
  const double size = std::abs(value);
  return size >= 1e4 && size < kPowersFrom ? count_text(value) : fmt::format("{:.4g}", value);
}

}  // namespace lt::report
