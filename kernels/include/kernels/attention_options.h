// Choices for attention on CUDA that can be made without a device.
#pragma once

#include "kernels/attention.h"

namespace lt::kernels {

// True if cuDNN should be tried at all: bf16 or f16, and D a multiple of 8 up to 256. It may still refuse.
bool may_run_on_cudnn(DType dtype, const AttentionShape& shape);

// Returns the number of sequences that one backward call of cuDNN takes: all of them or, in deterministic mode, those
// whose score gradients fit kScoreGradientBytes, but at least one.
inline constexpr Size kScoreGradientBytes = Size{256} << 20;
Size cudnn_backward_sequences(const AttentionShape& shape, bool deterministic);

// True if libtrain's kernels for the tensor cores of compute capability 9.0 (H100, H200, GH200) can run: bf16 or f16, H
// a multiple of G, T a multiple of hopper_keys(D), no documents, no window that hides anything, and heads of 64
// channels. The backward also takes heads of 128.
bool may_run_forward_on_hopper(DType dtype, const AttentionShape& shape, bool documents);
bool may_run_backward_on_hopper(DType dtype, const AttentionShape& shape, bool documents);
// Queries of a tile, and keys that a block of threads takes at a time.
inline constexpr int kHopperQueries = 64;
constexpr int hopper_keys(Size D) { return D == 64 ? 256 : 128; }
// The backward's workspace: the sums of dq in f32, then, at these offsets in bytes, delta in f32 and an int for each
// kHopperQueries queries and 64 channels of a head.
struct HopperWorkspace {
  Size delta, added, bytes;
};
HopperWorkspace hopper_workspace(const AttentionShape& shape);
// True if each block of threads of the backward takes two blocks of hopper_keys(D) keys: the i-th from the last, then
// the i-th. Every pair has the same work, so no multiprocessor idles while the longest single blocks end. Pairs of one
// head wait for each other and must run at the same time. So a head may have at most a quarter as many pairs as there
// are multiprocessors.
bool hopper_takes_pairs(const AttentionShape& shape, int multiprocessors);

// Documents of at least this many tokens can go to cuDNN, as a batch of sequences whose lengths only the device knows.
// Shorter ones run on libtrain's kernels: cuDNN would pad them to 128 tokens, and the batch could not be bounded well.
inline constexpr Size kLongDocument = 256;
// Returns the most long documents that a shape can have, which is the batch's fixed size.
constexpr Size most_long_documents(const AttentionShape& s) { return s.B * (s.T / kLongDocument); }
// True if the document that begins at position `start` is long.
constexpr bool is_long_document(const SeenKeys& seen, Size start) {
  const Size last = start + kLongDocument - 1;
  return last < seen.shape.T && seen.starts_T[last] == start;
}
// Returns the bytes of the batch's lengths and offsets.
Size document_batch_bytes(const AttentionShape& shape);
// True if cuDNN should be tried for long documents: may_run_on_cudnn() holds, some documents can be long, and D is a
// multiple of 16. For other D, cudnn-frontend sizes its workspace by the batch instead of the tokens.
bool may_run_documents_on_cudnn(DType dtype, const AttentionShape& shape);

// The layout of the workspace of a backward with documents on cuDNN: offsets in bytes, and sizes in bytes.
struct DocumentWorkspace {
  Size delta, dk, dv, cudnn, cudnn_bytes, bytes;  // the batch is at 0; dk_BTGD, dv_BTGD have two-byte elements
};
DocumentWorkspace document_workspace(const AttentionShape& shape);

// For generation: true if the cache is empty before the call, so that attention_forward() can compute it.
bool is_whole_prompt(const AttentionCached& call);
// For one new token: the number of query heads of a group that a block takes, and the most parts into which the keys
// are split.
Size cached_queries_at_once(const AttentionShape& shape);
inline constexpr int kCachedParts = 8;

}  // namespace lt::kernels
