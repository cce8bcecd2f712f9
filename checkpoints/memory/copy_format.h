// Describes a copy of a rank's state in memory: the layout of its ranges, and the state that is not a tensor (the
// seal). Hosts exchange both as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/tensor/shard_map.h"

namespace lt::checkpoint {

// The state that is not a tensor.
struct CopySeal {
  Size step = 0;               // 0: not sealed
  std::uint64_t timeline = 0;  // shared by starts that resumed from each other's memory
  Size samples = 0, data_tokens = 0;
  double loss_scale = 1;
  Size loss_scale_steps = 0, skipped = 0;
};
// Parses a timeline's hexadecimal digits, as in run.json. Returns 0 if there are no digits; no copy has that number.
std::uint64_t timeline_number(const std::string& digits);
// Convert to one line of text and back. seal_of() throws DataError.
std::string to_text(const CopySeal& seal);
CopySeal seal_of(const std::string& text);

inline constexpr Size kCopyAlignment = 64;             // elements, the engine's alignment of parameters
inline constexpr Size kMostCopyBytes = Size{1} << 46;  // a larger payload is not a copy

// Elements [begin, end) of a parameter's state, at byte `offset` of the payload.
struct CopyRange {
  std::string parameter;
  std::string kind;
  DType dtype;
  Size begin, end, offset;

  Size bytes() const { return (end - begin) * dtype_bytes(dtype); }
  bool operator==(const CopyRange&) const = default;
};

// Rounds `bytes` up to a multiple of kCopyAlignment elements.
constexpr Size aligned_copy(Size bytes, DType dtype) {
  const Size alignment = kCopyAlignment * dtype_bytes(dtype);
  return (bytes + alignment - 1) / alignment * alignment;
}

// Places the ranges one after the other, each at a multiple of kCopyAlignment elements of its dtype.
std::vector<CopyRange> copy_layout(const std::vector<StateRange>& ranges);
// The size of a payload; at least one aligned block.
Size payload_bytes_of(const std::vector<CopyRange>& layout);
// Convert to one line per range and back. layout_of() returns nullopt if the text is not a layout or if a range lies
// outside a payload of `payload_bytes`.
std::string to_text(const std::vector<CopyRange>& layout);
std::optional<std::vector<CopyRange>> layout_of(const std::string& text, Size payload_bytes = kMostCopyBytes);

}  // namespace lt::checkpoint
