// Searches the matmul algorithms that take the least time in training, when a CUDA device is at its power limit. The
// search takes some seconds per matmul, so runs do not do it. Builds without CUDA have nothing to search.
#pragma once

#include <functional>
#include <string>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::kernels {

struct SearchedMatmul {
  std::string name;             // "bf16 16384 x 6400 x 1600, B transposed, bias"
  double present_ms, found_ms;  // per call, over some tenths of a second
  Size in_all;                  // matmuls that this search searches
};

// Runs `compute` once to count the matmuls that a table can name. Runs it again, and searches an algorithm for each on
// the device's compute stream, in the matmul's first call that can be repeated: a call that does not add to its result.
// If work like GELU can be fused into the matmul or run as a separate pass, both are searched and then compared. Calls
// `report` after each search. Returns the text of the device's table (kernels/matmul_algorithms.h) with the found
// algorithms added. The device keeps its own table.
std::string search_matmuls(Device device, const std::function<void()>& compute,
                           const std::function<void(const SearchedMatmul&)>& report);

}  // namespace lt::kernels
