// Algorithms of cuBLASLt as the attributes that tables hold.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <optional>

#include "kernels/algorithm_table.h"

namespace lt::kernels {

// An algorithm of cuBLASLt, with or without a workspace. With a workspace, cuBLASLt runs another kernel even if the
// algorithm needs none, and first clears part of the workspace. Some matmuls are faster with it, some without.
struct Algorithm {
  cublasLtMatmulAlgo_t words{};
  bool has_workspace = true;

  bool operator==(const Algorithm& other) const {
    return has_workspace == other.has_workspace && std::ranges::equal(words.data, other.words.data);
  }
};

// The dtypes that decide which algorithms there are.
struct AlgorithmTypes {
  cublasComputeType_t compute;
  cudaDataType scale, in, out;
};

TableAlgorithm attributes_of(const Algorithm& algorithm);

// Returns nullopt if this version of cuBLASLt has no such algorithm, or if its bits would not be the same each time:
// its sums must not be split, or the parts must be added in f32 from the workspace.
std::optional<Algorithm> algorithm_of(cublasLtHandle_t handle, const AlgorithmTypes& types,
                                      const TableAlgorithm& attributes);

}  // namespace lt::kernels
