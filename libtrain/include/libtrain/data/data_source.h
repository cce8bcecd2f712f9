// A source of training data. Several sources are mixed by weight.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libtrain/api.h"

namespace LT_API lt {

struct DataSource {
  std::vector<std::string> files = {};  // paths or glob patterns, read in order
  double weight = 1;  // share of the samples, relative to other weights; above 0, at most six decimals
};
inline constexpr std::size_t kMaxDataSources = 64;

}  // namespace lt
