// Reads and writes the scaling of rotary positions as text.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "libtrain/error.h"
#include "libtrain/nn/transformer_spec.h"

namespace lt::nn {
namespace {

constexpr double kMost = 1e12;

[[noreturn]] void refuse_scaling(const std::string& expected, const std::string& text) {
  throw UsageError("model", "rope_scaling", expected, fmt::format("\"{}\"", text),
                   "Llama 3.1 has llama3:8,1,4,8192; a FACTOR of 1 changes nothing");
}

// Reads numbers, separated by commas, that fill `numbers`.
bool read(std::string_view text, std::span<double> numbers) {
  for (double& number : numbers) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const bool is_last = &number == &numbers.back();
    if (is_last != text.empty() || (!is_last && text[0] != ',')) return false;
    if (!is_last) text.remove_prefix(1);
  }
  return true;
}

}  // namespace

RopeScaling parse_rope_scaling(const std::string& text) {
  if (text.empty() || text == kNoRopeScaling) return {};
  const std::size_t colon = std::min(text.find(':'), text.size() - 1);
  const std::string_view kind = std::string_view(text).substr(0, colon),
                         rest = std::string_view(text).substr(colon + 1);
  std::array<double, 4> n{};
  const bool is_linear = kind == "linear", is_llama3 = kind == "llama3";
  const std::span<double> numbers = std::span(n).first(is_linear ? 1 : 4);
  if ((!is_linear && !is_llama3) || !read(rest, numbers)) {
    refuse_scaling("linear:FACTOR, llama3:FACTOR,LOW,HIGH,ORIGINAL or none", text);
  }
  const auto require = [&](bool holds, const std::string& expected) {
    if (!holds) refuse_scaling(expected, text);
  };
  for (const double number : numbers) {
    require(number > 0 && number <= kMost, fmt::format("numbers above 0 and at most {:g}", kMost));
  }
  require(n[0] >= 1, "a FACTOR of at least 1");
  if (is_linear) return {RopeScaling::Kind::linear, n[0]};
  require(n[1] < n[2], "a LOW below HIGH");
  require(n[3] == std::trunc(n[3]), "a whole number as ORIGINAL");
  return {RopeScaling::Kind::llama3, n[0], n[1], n[2], n[3]};
}

std::string to_string(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScaling::Kind::none: return "";
    case RopeScaling::Kind::linear: return fmt::format("linear:{}", scaling.factor);
    case RopeScaling::Kind::llama3:
      return fmt::format("llama3:{},{},{},{}", scaling.factor, scaling.low, scaling.high, scaling.original);
  }
  return "";
}

}  // namespace lt::nn
