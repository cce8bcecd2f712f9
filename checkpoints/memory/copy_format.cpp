// Converts layouts and seals to text and back.
#include "checkpoints/memory/copy_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "libtrain/error.h"

namespace lt::checkpoint {
std::uint64_t timeline_number(const std::string& digits) { return std::strtoull(digits.c_str(), nullptr, 16); }

std::string to_text(const CopySeal& seal) {
  return fmt::format("{} {} {} {} {:a} {} {}", seal.step, seal.timeline, seal.samples, seal.data_tokens,
                     seal.loss_scale, seal.loss_scale_steps, seal.skipped);
}

CopySeal seal_of(const std::string& text) {
  CopySeal seal;
  std::string scale;
  std::istringstream stream(text);
  stream >> seal.step >> seal.timeline >> seal.samples >> seal.data_tokens >> scale >> seal.loss_scale_steps >>
      seal.skipped;
  if (!stream) throw DataError("checkpoint", fmt::format("memory: expected a seal, found \"{}\"", text));
  seal.loss_scale = std::strtod(scale.c_str(), nullptr);
  return seal;
}

std::string to_text(const std::vector<CopyRange>& layout) {
  std::string text;
  for (const CopyRange& range : layout) {
    text += fmt::format("{} {} {} {} {} {}\n", range.kind, dtype_name(range.dtype), range.begin, range.end,
                        range.offset, range.parameter);
  }
  return text;
}

std::optional<std::vector<CopyRange>> layout_of(const std::string& text, Size payload_bytes) {
  std::vector<CopyRange> layout;
  std::istringstream lines(text);
  for (std::string kind, dtype; lines >> kind;) {
    CopyRange range{};
    if (!is_kind_name(kind) || !(lines >> dtype >> range.begin >> range.end >> range.offset)) return std::nullopt;
    const auto named = find_state_dtype(dtype);
    if (!named) return std::nullopt;
    range.kind = kind, range.dtype = *named;
    const Size element = dtype_bytes(range.dtype);
    lines.get();
    std::getline(lines, range.parameter);
    const bool inside = range.begin >= 0 && range.begin <= range.end && range.offset >= 0 &&
                        range.offset % element == 0 &&
                        range.end - range.begin <= (payload_bytes - range.offset) / element;
    if (!inside) return std::nullopt;
    layout.push_back(std::move(range));
  }
  return layout;
}

Size payload_bytes_of(const std::vector<CopyRange>& layout) {
  Size bytes = 1;
  for (const CopyRange& range : layout) bytes = std::max(bytes, range.offset + range.bytes());
  return aligned_copy(bytes, DType::f32);
}

}  // namespace lt::checkpoint
