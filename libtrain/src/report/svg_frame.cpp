// Axes and scales of the charts. Invariant: margins are taken from the texts that stand in them.
#include "report/svg_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/svg_chart.h"
#include "report/text.h"

namespace lt::report {
namespace {

constexpr double kCharacter = 7.2;  // widest usual digit of the 12 px font

double nice_step(double span, int count) {
  const double raw = span / count, power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::vector<double> multiples(double step, double first, double last) {
  std::vector<double> ticks;
  for (double i = first; i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

}  // namespace

std::vector<double> outer_ticks(Range range, int count) {
  if (!(range.high > range.low)) {
    const double room = range.low == 0 ? 1 : std::abs(range.low) * 0.05;
    range = {range.low == 0 ? 0 : range.low - room, range.high + room};
  }
  const double step = nice_step(range.high - range.low, count);
  return multiples(step, std::floor(range.low / step + 1e-9), std::ceil(range.high / step - 1e-9));
}

std::vector<double> inner_ticks(Range range, int count, bool whole) {
  if (!(range.high > range.low)) return {range.low};
  double step = nice_step(range.high - range.low, std::max(1, count));
  if (whole) step = std::max(1.0, step);
  return multiples(step, std::ceil(range.low / step - 1e-9), std::floor(range.high / step + 1e-9));
}

std::vector<std::string> tick_texts(const std::vector<double>& ticks) {
  double largest = 0, step = 0;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    largest = std::max(largest, std::abs(ticks[i]));
    if (i == 1) step = ticks[1] - ticks[0];
  }
  const double scale = largest >= 1e9 ? 1e9 : largest >= 1e6 ? 1e6 : largest >= 1e4 ? 1e3 : 1;
  const char* suffix = scale == 1e9 ? "G" : scale == 1e6 ? "M" : scale == 1e3 ? "k" : "";
  const int digits = step > 0 ? std::clamp(static_cast<int>(-std::floor(std::log10(step / scale) + 1e-9)), 0, 9) : 0;
  std::vector<std::string> texts;
  for (double tick : ticks) texts.push_back(tick == 0 ? "0" : fmt::format("{:.{}f}{}", tick / scale, digits, suffix));
  return texts;
}

double text_width(const std::string& text) { return kCharacter * static_cast<double>(text.size()); }

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

std::string Frame::hover(double from, double to, const std::string& text) const {
  return fmt::format(
      "<rect class=\"h\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>{}</title>"
      "</rect>\n",
      from, top_, std::max(0.5, to - from), bottom_ - top_, escaped(text));
}

static std::string legend(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string out = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i) {
    out += fmt::format("<li><i class=\"k{}\"></i>{}</li>", i % kChartColors, escaped(names[i]));
  }
  return out + "</ul>\n";
}

std::string open_figure(const std::string& title, const std::vector<std::string>& names) {
  return fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}", escaped(title), legend(names));
}

std::string number_text(double value) {
  return std::abs(value) >= 1e4 ? count_text(value) : fmt::format("{:.4g}", value);
}

}  // namespace lt::report
