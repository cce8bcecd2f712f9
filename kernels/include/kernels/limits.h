// Sizes that kernels refuse. Operations check them before they launch, and on meta for the device that it stands for,
// so a plan and a run refuse with the same message. Throws UsageError (component "kernels").
#pragma once

#include "kernels/common.h"

namespace lt::kernels {

inline constexpr Size kMostHeadChannels = 256;            // of attention on CUDA
inline constexpr Size kMostEmbeddingIds = Size{1} << 21;  // whose sorting leaves half of CUDA's scratch memory

// `target` is where the kernels will run, cpu or cuda.
void require_head_size(DeviceType target, Size channels);
void require_embedding_ids(DeviceType target, Size ids);

}  // namespace lt::kernels
