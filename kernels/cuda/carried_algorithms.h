// The tables that the library carries (kernels/algorithms/*.txt), which CMake puts into a source file.
#pragma once

#include <string>

#include "kernels/algorithm_table.h"

namespace lt::kernels {

// Returns the text of the table for a kind of GPU; empty if there is none.
std::string carried_algorithms(const GpuKind& gpu);

}  // namespace lt::kernels
