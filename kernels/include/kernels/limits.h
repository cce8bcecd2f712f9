// Size limits of kernels. Operations check them before a launch. For tensors on meta they check the limits of the
// device that meta represents, so a plan and a run fail with the same message. All functions throw UsageError
// (component "kernels").
#pragma once

#include "kernels/common.h"

namespace lt::kernels {

inline constexpr Size kMostHeadChannels = 256;            // of attention on CUDA
inline constexpr Size kMostRotatedChannels = 6144;        // of a head of rope on CUDA: f64 angles in 48 KiB
inline constexpr Size kMostEmbeddingIds = Size{1} << 21;  // sorting them takes about half of CUDA's scratch memory
inline constexpr int kMostSummedRanks = 4000;             // one launch takes a pointer for each

// `target` is where the kernels will run, cpu or cuda.
void require_head_size(DeviceType target, Size channels);
void require_rotated_channels(DeviceType target, Size channels);
void require_embedding_ids(DeviceType target, Size ids);
void require_summed_ranks(DeviceType target, int ranks);

}  // namespace lt::kernels
