// Makes the maps with the driver's cuTensorMapEncodeTiled.
#include "kernels/cuda/attention_hopper_maps.h"

#include <cstddef>
#include <string>

#include "device/cuda_driver.h"
#include "libtrain/error.h"

namespace lt::kernels::hopper {
namespace {

constexpr Size kChannels = 64, kElementBytes = 2;

// `heads` heads from number `first` on. `row` elements lie between neighbours in T.
CUtensorMap tile_map(const TileMaps& maps, const void* array, Size first, Size heads, Size row, int positions) {
  static const auto encode = device::cuda::driver_function<PFN_cuTensorMapEncodeTiled_v12000>("cuTensorMapEncodeTiled");
  if (encode == nullptr) throw InternalError("attention", "the driver has no cuTensorMapEncodeTiled");
  const auto unsigned_of = [](Size x) { return static_cast<cuuint64_t>(x); };
  const AttentionShape& s = maps.shape;
  const cuuint64_t sizes[] = {kChannels, unsigned_of(heads), unsigned_of(s.T), unsigned_of(s.B)};
  const cuuint64_t strides[] = {kChannels * kElementBytes, unsigned_of(row * kElementBytes),
                                unsigned_of(row * kElementBytes * s.T)};
  const cuuint32_t box[] = {kChannels, 1, static_cast<cuuint32_t>(positions), 1}, steps[] = {1, 1, 1, 1};
  const auto* const begin = static_cast<const std::byte*>(array) + first * kChannels * kElementBytes;
  CUtensorMap map{};
  const CUresult result =
      encode(&map, maps.dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4,
             const_cast<std::byte*>(begin), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw InternalError("attention", "cuTensorMapEncodeTiled: error " + std::to_string(static_cast<int>(result)));
  }
  return map;
}

}  // namespace

CUtensorMap TileMaps::queries(const void* packed, int positions) const {
  return tile_map(*this, packed, 0, shape.H, shape.row(), positions);
}
CUtensorMap TileMaps::keys(const void* packed, int positions) const {
  return tile_map(*this, packed, shape.H, shape.G, shape.row(), positions);
}
CUtensorMap TileMaps::values(const void* packed, int positions) const {
  return tile_map(*this, packed, shape.H + shape.G, shape.G, shape.row(), positions);
}
CUtensorMap TileMaps::output(const void* array_BTHD, int positions) const {
  return tile_map(*this, array_BTHD, 0, shape.H, shape.H * kChannels, positions);
}

}  // namespace lt::kernels::hopper
