// Computes the offset of each range in a copy.
#include "checkpoints/memory/copy_format.h"

namespace lt::checkpoint {

std::vector<CopyRange> copy_layout(const std::vector<StateRange>& ranges) {
  std::vector<CopyRange> layout;
  Size at = 0;
  for (const StateRange& range : ranges) {
    const DType dtype = range.values.dtype();
    layout.push_back({range.parameter, range.kind, dtype, range.begin, range.end, aligned_copy(at, dtype)});
    at = aligned_copy(layout.back().offset + layout.back().bytes(), dtype);
  }
  return layout;
}

}  // namespace lt::checkpoint
