// Tables that say which of cuBLASLt's algorithms computes a matmul (docs/reference/algorithm-tables.md). A table is
// data for one kind of GPU: an architecture and a number of multiprocessors. The library carries one; `ltrain bench
// tune` makes others. A matmul that is not in the table takes the algorithm that cuBLASLt proposes first. So the
// algorithm depends on the kind of GPU, the version of cuBLASLt, the table and the shape alone.
#pragma once

#include <string>

#include "libtrain/device/device.h"

namespace lt::kernels {

// Returns the text of the table that the library carries for this kind of GPU; empty if there is none, and for CPUs.
std::string carried_matmul_algorithms(Device device);

// Returns the text of the table that matmuls on the device use, at first the carried one; empty if there is none.
std::string matmul_algorithms(Device device);

// Makes later matmuls on the device use the table `text`; empty: none. `where`, the table's file, is for errors. No
// matmul may run at the same time, and CUDA graphs keep the algorithms with which they were captured. Throws DataError
// if the text is damaged, UsageError if it is for another kind of GPU.
void use_matmul_algorithms(Device device, const std::string& text, const std::string& where);

// Returns 16 hex digits that are equal for tables with the same entries for the same kind of GPU; "none" if the text is
// empty. Ignores comments and the order of the lines.
std::string digest_of_algorithms(const std::string& text);

// Returns cuBLASLt's version, "13.1.1"; empty in builds without CUDA.
std::string cublaslt_version();

}  // namespace lt::kernels
