// Documents of given lengths along rows of tokens, for tests of attention and positions.
#pragma once

#include <cstdint>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::test {

// Returns the position in its row where each token's document begins, B rows of T. The documents of row b have lengths
// lengths[b], lengths[b + 1], ... in turn; the end of the row cuts the last one.
inline std::vector<std::int32_t> document_starts(Size B, Size T, const std::vector<Size>& lengths) {
  std::vector<std::int32_t> starts;
  for (Size b = 0; b < B; ++b) {
    Size start = 0;
    auto length = static_cast<std::size_t>(b);
    for (Size t = 0; t < T; ++t) {
      if (t - start == lengths[length % lengths.size()]) start = t, ++length;
      starts.push_back(static_cast<std::int32_t>(start));
    }
  }
  return starts;
}

}  // namespace lt::test
