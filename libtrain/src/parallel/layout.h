// UnitLayout: the offset of each parameter in the flat buffers of a unit, which all share this layout. Decayed
// parameters are first, so a shard has at most one boundary between decayed and other ones. Every parameter starts at a
// multiple of kAlignment elements (128 bytes in bf16, 256 in f32). The total is a multiple of `parts` * kAlignment, and
// `parts` a multiple of the world size, so shards are contiguous ranges of equal size and alignment. A shard may hold
// only padding.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "libtrain/nn/module.h"

namespace lt::parallel {

// One of several equal parts of a unit, or the whole unit, in elements.
struct UnitPart {
  Size begin, size;
  Size end() const { return begin + size; }
  // The intersection with [from, to); it may be empty.
  UnitPart overlap(Size from, Size to) const {
    const Size first = std::max(begin, from);
    return {first, std::max<Size>(std::min(end(), to) - first, 0)};
  }
};

class UnitLayout {
 public:
  static constexpr Size kAlignment = 64;
  // Rounds `elements` up to a multiple of kAlignment * `parts`.
  static constexpr Size aligned(Size elements, Size parts = 1) {
    const Size multiple = kAlignment * parts;
    return (elements + multiple - 1) / multiple * multiple;
  }

  struct Range {
    std::string name;
    nn::Parameter* parameter;
    Size begin, elements;
    Size end() const { return begin + elements; }
  };

  UnitLayout(std::string name, const std::vector<nn::NamedParameter>& parameters, int parts);

  const std::string& name() const { return name_; }
  const std::vector<Range>& ranges() const { return ranges_; }
  // All elements, padding included.
  Size padded() const { return padded_; }
  // Elements below this index are decayed (or padding).
  Size decayed() const { return decayed_; }

  // Calls visit(begin, end) for each range of padding.
  template <class Visit>
  void for_each_gap(Visit&& visit) const {
    Size at = 0;
    for (const Range& range : ranges_) {
      if (range.begin > at) visit(at, range.begin);
      at = range.end();
    }
    if (padded_ > at) visit(at, padded_);
  }

 private:
  std::string name_;
  std::vector<Range> ranges_;
  Size padded_ = 0, decayed_ = 0;
};

}  // namespace lt::parallel
