// The checks, and their messages.
#include "kernels/limits.h"

#include <string>

#include "libtrain/error.h"

namespace lt::kernels {
namespace {

void require_at_most(DeviceType target, const char* what, Size most, Size found, const char* hint) {
  if (target != DeviceType::cuda || found <= most) return;
  throw UsageError(
      "kernels",
      std::string(what) + ": expected at most " + std::to_string(most) + " on CUDA, got " + std::to_string(found),
      hint);
}

}  // namespace

void require_head_size(DeviceType target, Size channels) {
  require_at_most(target, "attention: channels of a head", kMostHeadChannels, channels,
                  "more heads, or a smaller head_dim");
}

void require_rotated_channels(DeviceType target, Size channels) {
  require_at_most(target, "rope: channels of a head", kMostRotatedChannels, channels,
                  "more heads, or a smaller head_dim");
}

void require_embedding_ids(DeviceType target, Size ids) {
  require_at_most(target, "embedding: tokens of a micro-batch", kMostEmbeddingIds, ids,
                  "a smaller micro_batch with a larger accum takes as many tokens a step");
}

void require_summed_ranks(DeviceType target, int ranks) {
  require_at_most(target, "reduce-scatter: ranks of a group", kMostSummedRanks, ranks,
                  "a shard_size makes the groups smaller (hybrid sharding)");
}

}  // namespace lt::kernels
