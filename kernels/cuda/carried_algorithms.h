// The table that the library carries (kernels/algorithms), which CMake puts into a source file.
#pragma once

#include <string>

#include "kernels/algorithm_table.h"

namespace lt::kernels {

// Returns the text of the table if it is for this kind of GPU, else an empty text.
std::string carried_algorithms(const GpuKind& gpu);

}  // namespace lt::kernels
