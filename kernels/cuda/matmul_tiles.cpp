// The table of tiles, and the model of their time.
#include "kernels/cuda/matmul_tiles.h"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/cublas_handle.h"

namespace lt::kernels {
namespace {

struct Tile {
  cublasLtMatmulTile_t id;
  Size columns, rows;  // of a row-major result

  // Two groups of warps have a tile each if a multiprocessor's registers hold two.
  constexpr bool is_of_one_group() const { return columns * rows <= 128 * 176; }
};

#define LT_TILE(columns, rows) \
  Tile { CUBLASLT_MATMUL_TILE_##columns##x##rows, columns, rows }
// clang-format off
constexpr Tile kTiles[] = {
    LT_TILE(128, 128), LT_TILE(128, 136), LT_TILE(128, 144), LT_TILE(128, 152), LT_TILE(128, 160), LT_TILE(128, 168),
    LT_TILE(128, 176), LT_TILE(128, 224), LT_TILE(128, 256), LT_TILE(128, 288), LT_TILE(128, 304), LT_TILE(128, 320),
    LT_TILE(128, 328), LT_TILE(128, 336), LT_TILE(128, 344), LT_TILE(128, 352),
    LT_TILE(136, 256), LT_TILE(144, 256), LT_TILE(152, 256), LT_TILE(160, 256), LT_TILE(168, 256), LT_TILE(176, 256),
    LT_TILE(224, 128), LT_TILE(256, 128), LT_TILE(256, 136), LT_TILE(256, 144), LT_TILE(256, 152), LT_TILE(256, 160),
    LT_TILE(256, 168), LT_TILE(256, 176), LT_TILE(288, 128), LT_TILE(304, 128), LT_TILE(320, 128), LT_TILE(328, 128),
    LT_TILE(336, 128), LT_TILE(344, 128), LT_TILE(352, 128),
    LT_TILE(64, 256), LT_TILE(64, 320), LT_TILE(96, 128), LT_TILE(96, 192), LT_TILE(104, 192), LT_TILE(112, 192),
    LT_TILE(128, 96), LT_TILE(128, 192), LT_TILE(128, 208), LT_TILE(128, 240), LT_TILE(128, 272), LT_TILE(144, 128),
    LT_TILE(144, 192), LT_TILE(152, 128), LT_TILE(160, 128), LT_TILE(160, 192), LT_TILE(168, 128), LT_TILE(176, 128),
    LT_TILE(176, 192), LT_TILE(192, 96), LT_TILE(192, 104), LT_TILE(192, 112), LT_TILE(192, 128), LT_TILE(192, 144),
    LT_TILE(192, 160), LT_TILE(192, 176), LT_TILE(192, 192), LT_TILE(192, 208), LT_TILE(192, 224), LT_TILE(208, 128),
    LT_TILE(208, 192), LT_TILE(224, 192), LT_TILE(240, 128), LT_TILE(256, 64), LT_TILE(256, 120), LT_TILE(272, 128),
    LT_TILE(320, 64), LT_TILE(320, 96), LT_TILE(320, 112),
};
// clang-format on
#undef LT_TILE

struct Cluster {
  cublasLtClusterShape_t shape;
  Size columns, rows;  // in tiles
};
constexpr Cluster kClusters[] = {
    {CUBLASLT_CLUSTER_SHAPE_2x1x1, 2, 1}, {CUBLASLT_CLUSTER_SHAPE_1x2x1, 1, 2}, {CUBLASLT_CLUSTER_SHAPE_1x1x1, 1, 1}};
constexpr std::uint32_t kOptions[] = {1, 0, 3, 2};

constexpr int kAlgorithm = 66;  // CUBLASLT_ALGO_CONFIG_ID

Size rounded_up(Size size, Size step) { return (size + step - 1) / step * step; }

// The time of a result's tiles, in rounds of all multiprocessors. Two groups of warps with a tile each end a round half
// a tile apart, and one's epilogue runs beside the other's sums. A tile's operands take time in proportion to its
// sides. The constants fit 35 matmuls on an H200 (bench/notes/matmuls.md, "Tiles that cuBLASLt does not propose").
double cost_of(const Tile& tile, const Cluster& cluster, Size M, Size N, int multiprocessors) {
  constexpr double kSides = 40, kEpilogueBeside = 0.9;
  const Size across = rounded_up((N + tile.columns - 1) / tile.columns, cluster.columns),
             down = rounded_up((M + tile.rows - 1) / tile.rows, cluster.rows);
  const auto columns = static_cast<double>(tile.columns), rows = static_cast<double>(tile.rows);
  const double share = static_cast<double>(across * down) / multiprocessors,
               operands = 1 + kSides * (1 / columns + 1 / rows);
  const double rounds = tile.is_of_one_group() ? kEpilogueBeside * (share + 0.5) : std::ceil(share);
  return rounds * columns * rows * operands;
}

template <class T>
void set(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t name, T value) {
  LT_CUBLAS(cublasLtMatmulAlgoConfigSetAttribute(&algorithm, name, &value, sizeof value));
}

}  // namespace

std::vector<TileConfiguration> tiles_by_cost(Size M, Size N, int multiprocessors) {
  std::vector<TileConfiguration> result;
  for (const Tile& tile : kTiles) {
    const std::uint32_t shared = tile.is_of_one_group() ? 0 : 4;
    for (const std::uint32_t option : kOptions) {
      for (const Cluster& cluster : kClusters) {
        result.push_back({tile.id, shared + option, cluster.shape, cost_of(tile, cluster, M, N, multiprocessors)});
      }
    }
  }
  std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.cost < b.cost; });
  return result;
}

bool is_tiled_algorithm(const cublasLtMatmulAlgo_t& algorithm) {
  int id = 0;
  std::size_t bytes = 0;
  LT_CUBLAS(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &bytes));
  return id == kAlgorithm;
}

std::optional<cublasLtMatmulAlgo_t> tiled_algorithm(cublasLtHandle_t handle, cudaDataType in, cudaDataType out) {
  cublasLtMatmulAlgo_t algorithm{};
  if (cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, in, in, out, out, kAlgorithm, &algorithm) !=
      CUBLAS_STATUS_SUCCESS) {
    return std::nullopt;
  }
  // The tile decides the number of stages, so the algorithm has one setting of them.
  std::uint32_t stages[CUBLASLT_MATMUL_STAGES_END] = {};
  std::size_t bytes = 0;
  if (cublasLtMatmulAlgoCapGetAttribute(&algorithm, CUBLASLT_ALGO_CAP_STAGES_IDS, stages, sizeof stages, &bytes) !=
          CUBLAS_STATUS_SUCCESS ||
      bytes != sizeof stages[0]) {
    return std::nullopt;
  }
  set(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID, stages[0]);
  return algorithm;
}

void set_tile(cublasLtMatmulAlgo_t& algorithm, const TileConfiguration& tile) {
  set(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, static_cast<std::uint32_t>(tile.id));
  set(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, tile.option);
  set(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, static_cast<std::uint16_t>(tile.cluster));
}

}  // namespace lt::kernels
