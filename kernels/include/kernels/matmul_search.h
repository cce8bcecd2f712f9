// Searches the matmul algorithms that take the least time in training, when a CUDA device is at its power limit. The
// search takes about 10 s per matmul, so runs do not do it. Builds without CUDA have nothing to search.
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

// Runs `compute` once to count the matmuls. Runs it again, and searches an algorithm for each matmul on the device's
// compute stream, in the matmul's first call that can be repeated: a call that does not add to its result and is
// neither pinned nor deterministic. If work like GELU can be fused into the matmul or run as a separate pass, both are
// searched and then compared. Later calls use the algorithm that was found. Calls `report` after each search. Throws
// DataError if the file for the found algorithms cannot be written.
void search_matmuls(Device device, const std::function<void()>& compute,
                    const std::function<void(const SearchedMatmul&)>& report);

enum class Algorithms { present, found };
// Makes later calls of all matmuls of the last search use the found algorithms, or those used before the search.
void use_matmuls(Device device, Algorithms which);

// Writes the found algorithms to the file from which runs read the algorithms of matmuls. Returns its path, or an empty
// text if it cannot be written.
std::string keep_found_matmuls(Device device);

}  // namespace lt::kernels
