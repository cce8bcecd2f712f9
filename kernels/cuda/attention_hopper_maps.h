// Tensor maps, by which the tensor memory accelerator finds tiles of attention's arrays. A tile is a range of positions
// of one head.
#pragma once

#include <cuda.h>

#include "kernels/attention.h"

namespace lt::kernels::hopper {

// Maps for arrays of a shape with heads of 64 channels of two bytes: of the packed rows [H | G | G] x 64 or of
// [B, T, H, 64]. A copy takes `positions` positions of one head. Arrays must be aligned to 16 bytes. Throws
// InternalError if the driver refuses.
struct TileMaps {
  DType dtype;
  AttentionShape shape;

  CUtensorMap queries(const void* packed, int positions) const;
  CUtensorMap keys(const void* packed, int positions) const;
  CUtensorMap values(const void* packed, int positions) const;
  CUtensorMap output(const void* array_BTHD, int positions) const;
};

}  // namespace lt::kernels::hopper
