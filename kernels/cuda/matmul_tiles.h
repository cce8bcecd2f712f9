// Tiles of cuBLASLt's matmuls for compute capability 9.0, ranked by an estimate of their time. cuBLASLt's heuristics
// omit some of the fastest, mainly for matmuls with a bias.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::kernels {

struct TileConfiguration {
  cublasLtMatmulTile_t id;
  // The value of CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, which NVIDIA does not document. Observed: with 4, two groups of
  // warps share a tile, otherwise each has its own tile; with 1, the tile's columns are the 64 rows of tensor core
  // operations; with 2, the order of the tiles differs.
  std::uint32_t option;
  cublasLtClusterShape_t cluster;
  double cost;  // relative to other configurations for the same matmul
};

// Returns 912 configurations for a row-major result of M x N, by ascending cost, so that a search meets a fast one
// early and can drop others after one call. Some matmuls and some versions of cuBLASLt do not support all of them
// (check with cublasLtMatmulAlgoCheck).
std::vector<TileConfiguration> tiles_by_cost(Size M, Size N, int multiprocessors);

// True if this is the algorithm that has these tiles.
bool is_tiled_algorithm(const cublasLtMatmulAlgo_t& algorithm);
// Returns the algorithm for operands of type `in` and sums in f32; set_tile() completes it. Returns nullopt if this
// version of cuBLASLt does not have it.
std::optional<cublasLtMatmulAlgo_t> tiled_algorithm(cublasLtHandle_t handle, cudaDataType in, cudaDataType out);
void set_tile(cublasLtMatmulAlgo_t& algorithm, const TileConfiguration& tile);

}  // namespace lt::kernels
