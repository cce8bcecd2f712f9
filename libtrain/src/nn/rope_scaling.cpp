// The text of scaled rotary positions.
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

[[noreturn]] void refuse_scaling(const std::string& text) {
  throw UsageError(
      "config",
      fmt::format("model.rope_scaling: expected linear:FACTOR, llama3:FACTOR,LOW,HIGH,ORIGINAL or nothing, "
                  "got \"{}\"",
                  text),
      "Llama 3.1 has llama3:8,1,4,8192; a FACTOR of 1 changes nothing");
}

// Reads positive numbers, separated by commas, that fill `numbers`.
bool read(std::string_view text, std::span<double> numbers) {
  for (double& number : numbers) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !(number > 0 && number <= 1e12)) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const bool is_last = &number == &numbers.back();
    if (is_last != text.empty() || (!is_last && text[0] != ',')) return false;
    if (!is_last) text.remove_prefix(1);
  }
  return true;
}

}  // namespace

RopeScaling parse_rope_scaling(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t colon = std::min(text.find(':'), text.size() - 1);
  const std::string_view kind = std::string_view(text).substr(0, colon),
                         rest = std::string_view(text).substr(colon + 1);
  std::array<double, 4> n{};
  if (kind == "linear" && read(rest, std::span(n).first(1)) && n[0] >= 1) return {RopeScaling::Kind::linear, n[0]};
  if (kind == "llama3" && read(rest, n) && n[0] >= 1 && n[1] < n[2] && n[3] == std::trunc(n[3])) {
    return {RopeScaling::Kind::llama3, n[0], n[1], n[2], n[3]};
  }
  refuse_scaling(text);
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
