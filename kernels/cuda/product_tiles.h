// Tiles of cuBLASLt's products for compute capability 9.0, ranked by an estimate of the time they take. Its heuristics
// leave out some of the fastest, above all for products with a bias.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::kernels {

struct TileConfiguration {
  cublasLtMatmulTile_t id;
  // As CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, which NVIDIA does not document. Observed: with 4, two groups of warps share
  // a tile, otherwise each has one of its own; 1 lets the tile's columns be the 64 rows of tensor core operations; 2 is
  // another order of the tiles.
  std::uint32_t option;
  cublasLtClusterShape_t cluster;
  double cost;  // relative to others of the same product
};

enum class Tiles { usual, all };  // usual: 148 configurations that are often the fastest; all: 912
// Configurations for a row-major result of M x N, by ascending cost. Neither every product nor every version of
// cuBLASLt takes each (cublasLtMatmulAlgoCheck).
std::vector<TileConfiguration> tiles_by_cost(Size M, Size N, int multiprocessors, Tiles which = Tiles::usual);

// Whether this is the algorithm that has these tiles.
bool is_tiled_algorithm(const cublasLtMatmulAlgo_t& algorithm);
// The algorithm, for sums in f32 of products of `in`; set_tile() completes it. Null if this version of cuBLASLt does
// not have it.
std::optional<cublasLtMatmulAlgo_t> tiled_algorithm(cublasLtHandle_t handle, cudaDataType in, cudaDataType out);
void set_tile(cublasLtMatmulAlgo_t& algorithm, const TileConfiguration& tile);

}  // namespace lt::kernels
