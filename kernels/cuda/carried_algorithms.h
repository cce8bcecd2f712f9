// The table that the library carries (kernels/algorithms), which CMake puts into a source file.
#pragma once

#include <optional>

#include "kernels/algorithm_table.h"

namespace lt::kernels {

// Returns the table if it is for this kind of GPU.
std::optional<AlgorithmTable> carried_algorithms(const GpuKind& gpu);

}  // namespace lt::kernels
