// Finds the long documents of packed rows. Uses one block. Each thread takes a stretch of tokens and counts the long
// documents that begin there. A scan over the counts gives each document its index in the batch, in the order of the
// tokens.
#include "kernels/cuda/attention_documents.h"

#include <cub/block/block_scan.cuh>

#include "kernels/cuda/common.cuh"

namespace lt::kernels {
namespace {

constexpr int kFinders = 1024;

// One past the last token of the document of position `start`.
__device__ Size end_of_document(const SeenKeys& seen, Size start) {
  Size inside = start, beyond = seen.shape.T;
  while (beyond - inside > 1) {
    const Size middle = (inside + beyond) / 2;
    (seen.starts_T[middle] == start ? inside : beyond) = middle;
  }
  return beyond;
}

__global__ void __launch_bounds__(kFinders)
    find_kernel(DocumentBatch batch, const std::int32_t* starts_BT, AttentionShape s) {
  using Scan = cub::BlockScan<int, kFinders>;
  __shared__ typename Scan::TempStorage storage;
  const Size tokens = s.B * s.T, stretch = (tokens + kFinders - 1) / kFinders, begin = threadIdx.x * stretch;
  const Size end = begin + stretch < tokens ? begin + stretch : tokens;
  const auto begins_at = [&](Size m) {
    const Size t = m % s.T;
    return starts_BT[m] == t && is_long_document(seen_keys(s, starts_BT, m / s.T), t);
  };
  const auto set_offsets = [&](Size n, Size m) {
    batch.packed_N1[n] = m * s.row(), batch.heads_N1[n] = m * s.H * s.D;
    batch.groups_N1[n] = m * s.G * s.D, batch.statistics_N1[n] = m * s.H;
  };
  int count = 0, before = 0, all = 0;
  for (Size m = begin; m < end; ++m) count += begins_at(m) ? 1 : 0;
  Scan(storage).ExclusiveSum(count, before, all);
  Size n = before;
  for (Size m = begin; m < end; ++m) {
    if (!begins_at(m)) continue;
    const Size t = m % s.T;
    batch.lengths_N[n] = static_cast<std::int32_t>(end_of_document(seen_keys(s, starts_BT, m / s.T), t) - t);
    set_offsets(n++, m);
  }
  for (Size i = all + static_cast<Size>(threadIdx.x); i <= batch.most; i += kFinders) {
    if (i < batch.most) batch.lengths_N[i] = 0;
    set_offsets(i, tokens);
  }
}

}  // namespace

DocumentBatch find_long_documents(CudaStream stream, std::byte* memory, const std::int32_t* starts_BT,
                                  const AttentionShape& shape) {
  DocumentBatch batch{most_long_documents(shape), nullptr, nullptr, nullptr, nullptr, nullptr};
  auto* next = reinterpret_cast<std::int64_t*>(memory);
  for (std::int64_t** offsets : {&batch.packed_N1, &batch.heads_N1, &batch.groups_N1, &batch.statistics_N1}) {
    *offsets = next;
    next += batch.most + 1;
  }
  batch.lengths_N = reinterpret_cast<std::int32_t*>(next);
  find_kernel<<<1, kFinders, 0, stream_of(stream)>>>(batch, starts_BT, shape);
  check_launch("find_long_documents");
  return batch;
}

}  // namespace lt::kernels
