// Reads and sets the attributes of CUBLASLT_ALGO_CONFIG_*.
#include "kernels/cuda/algorithm_attributes.h"

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/cublas_handle.h"

namespace lt::kernels {
namespace {

struct Attribute {
  std::size_t at;  // in TableAlgorithm::attributes
  cublasLtMatmulAlgoConfigAttributes_t name;
  std::size_t bytes;
};
constexpr Attribute kSettable[] = {
    {TableAlgorithm::kTile, CUBLASLT_ALGO_CONFIG_TILE_ID, sizeof(std::uint32_t)},
    {TableAlgorithm::kStages, CUBLASLT_ALGO_CONFIG_STAGES_ID, sizeof(std::uint32_t)},
    {TableAlgorithm::kCluster, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, sizeof(std::uint16_t)},
    {TableAlgorithm::kSplit, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, sizeof(std::uint32_t)},
    {TableAlgorithm::kReduce, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, sizeof(std::uint32_t)},
    {TableAlgorithm::kSwizzle, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, sizeof(std::uint32_t)},
    {TableAlgorithm::kOption, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, sizeof(std::uint32_t)},
    {TableAlgorithm::kInner, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, sizeof(std::uint16_t)},
};

}  // namespace

TableAlgorithm attributes_of(const Algorithm& algorithm) {
  TableAlgorithm result;
  std::size_t written = 0;
  std::int32_t id = 0;
  LT_CUBLAS(cublasLtMatmulAlgoConfigGetAttribute(&algorithm.words, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &written));
  result.attributes[TableAlgorithm::kId] = static_cast<std::uint32_t>(id);
  for (const Attribute& attribute : kSettable) {
    std::uint32_t value = 0;  // little-endian, so two bytes fill its lower half
    LT_CUBLAS(
        cublasLtMatmulAlgoConfigGetAttribute(&algorithm.words, attribute.name, &value, attribute.bytes, &written));
    result.attributes[attribute.at] = value;
  }
  result.attributes[TableAlgorithm::kWorkspace] = algorithm.has_workspace;
  return result;
}

std::optional<Algorithm> algorithm_of(cublasLtHandle_t handle, const AlgorithmTypes& types,
                                      const TableAlgorithm& attributes) {
  const auto value_of = [&](std::size_t at) { return attributes.attributes[at]; };
  if (value_of(TableAlgorithm::kSplit) > 1 &&
      value_of(TableAlgorithm::kReduce) != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
    return std::nullopt;
  Algorithm result;
  result.has_workspace = value_of(TableAlgorithm::kWorkspace) != 0;
  if (cublasLtMatmulAlgoInit(handle, types.compute, types.scale, types.in, types.in, types.out, types.out,
                             static_cast<int>(value_of(TableAlgorithm::kId)), &result.words) != CUBLAS_STATUS_SUCCESS)
    return std::nullopt;
  for (const Attribute& attribute : kSettable) {
    const std::uint32_t value = value_of(attribute.at);
    if (cublasLtMatmulAlgoConfigSetAttribute(&result.words, attribute.name, &value, attribute.bytes) !=
        CUBLAS_STATUS_SUCCESS)
      return std::nullopt;
  }
  return result;
}

}  // namespace lt::kernels
