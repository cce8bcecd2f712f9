// What a copy in memory says of itself: where each range of the state lies in it, and the part of the state that is no
// tensor. Both travel between hosts as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/tensor/shard_map.h"

namespace lt::checkpoint {

// The part of the state that is no tensor.
struct CopySeal {
  Size step = 0;               // 0: not sealed
  std::uint64_t timeline = 0;  // of the starts that went on from each other's memory
  Size samples = 0, data_tokens = 0;
  double loss_scale = 1;
  Size loss_scale_steps = 0, skipped = 0;
};
// A timeline as run.json has it, in hexadecimal digits; 0 of none, which no copy has.
std::uint64_t timeline_number(const std::string& digits);
// As one line of text, and back. Throws DataError.
std::string to_text(const CopySeal& seal);
CopySeal seal_of(const std::string& text);

inline constexpr Size kCopyAlignment = 64;             // elements, as engines align parameters
inline constexpr Size kMostCopyBytes = Size{1} << 46;  // more is no copy

// Elements [begin, end) of a parameter's state, at `offset` bytes of the payload.
struct CopyRange {
  std::string parameter;
  std::string kind;
  DType dtype;
  Size begin, end, offset;

  Size bytes() const { return (end - begin) * dtype_bytes(dtype); }
};

// The first multiple of kCopyAlignment elements from `bytes` on.
constexpr Size aligned_copy(Size bytes, DType dtype) {
  const Size alignment = kCopyAlignment * dtype_bytes(dtype);
  return (bytes + alignment - 1) / alignment * alignment;
}

// The ranges one after the other, each at a multiple of kCopyAlignment elements of its dtype.
std::vector<CopyRange> copy_layout(const std::vector<StateRange>& ranges);
// The size of a payload; at least one block.
Size payload_bytes_of(const std::vector<CopyRange>& layout);
// A line a range, and back; none where the text is no layout, or beyond a payload of that size.
std::string to_text(const std::vector<CopyRange>& layout);
std::optional<std::vector<CopyRange>> layout_of(const std::string& text, Size payload_bytes = kMostCopyBytes);

}  // namespace lt::checkpoint
