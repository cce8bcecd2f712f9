// Causal attention with grouped key/value heads on packed rows. Forward and backward work in blocks with a running
// softmax and need no T x T matrix (Dao et al. 2022; Milakov & Gimelshein 2018 for the running softmax).
// A packed row is [query heads | key heads | value heads] = [H*D | G*D | G*D]; query head h reads key/value head h*G/H.
// With a window, a position sees itself and window - 1 positions before it (Beltagy et al. 2020).
// starts_BT gives, for each token, the position in its sequence where the token's document begins. With starts_BT, a
// position sees only its own document. Starts never decrease along a sequence, and starts_BT[b, i] <= i. Tiles outside
// a query's document are skipped.
#pragma once

#include <cstdint>

#include "kernels/common.h"
#include "libtrain/kernels/rope_scaling.h"

namespace lt::kernels {

struct AttentionShape {
  Size B, T, H, G, D;
  Size window = 0;  // 0: all earlier positions

  constexpr Size row() const { return (H + 2 * G) * D; }
  // Within the window, position i sees positions first_seen(i) .. i.
  constexpr Size first_seen(Size i) const { return window > 0 && i >= window ? i - window + 1 : 0; }
  // True if the window hides an earlier position.
  constexpr bool window_hides() const { return window > 0 && window < T; }
};

// The keys that the queries of one sequence see: position i sees positions first_seen(i) .. i. first_seen() never
// decreases. Positions from T on, with which tiles are padded, belong to the document of position T - 1.
struct SeenKeys {
  AttentionShape shape;
  const std::int32_t* starts_T;  // null: the sequence is one document

  constexpr Size first_seen(Size i) const {
    const Size in_window = shape.first_seen(i);
    if (starts_T == nullptr) return in_window;
    const Size start = starts_T[i < shape.T ? i : shape.T - 1];
    return start > in_window ? start : in_window;
  }
};
constexpr SeenKeys seen_keys(const AttentionShape& s, const std::int32_t* starts_BT, Size b) {
  return {s, starts_BT == nullptr ? nullptr : starts_BT + b * s.T};
}

// Which implementation runs on CUDA. `automatic`: for calls that may_run_forward_on_hopper() or
// may_run_backward_on_hopper(), libtrain's kernels for compute capability 9.0 if device, pointers and scale allow;
// otherwise cuDNN if it supports the shape; otherwise libtrain's general kernels. `own`: only the general kernels.
// `cudnn`: throws InternalError with cuDNN's reason if it does not support the shape. `own` and `cudnn` are for
// comparisons.
enum class AttentionPath { automatic, own, cudnn };

// out_BTHD = softmax(scale * q k^T, causal) v; lse_BHT = log of the sum of exponentials (f32, f64 for f64). Only the
// backward on the same device may read lse, because with documents CUDA stores it as [B, T, H].
struct AttentionForward {
  DType dtype;
  AttentionShape shape;
  double scale;
  void *out_BTHD, *lse_BHT;
  const void* qkv;
  AttentionPath path = AttentionPath::automatic;
  const std::int32_t* starts_BT = nullptr;
};
template <class S>
void attention_forward(S stream, const AttentionForward& call);

// dqkv is overwritten. `workspace` has attention_backward_workspace() bytes of the stream's device.
struct AttentionBackward {
  DType dtype;
  AttentionShape shape;
  double scale;
  void* dqkv;
  const void *dout_BTHD, *qkv, *out_BTHD, *lse_BHT;
  void* workspace;
  bool deterministic = false;
  AttentionPath path = AttentionPath::automatic;
  const std::int32_t* starts_BT = nullptr;
};
template <class S>
void attention_backward(S stream, const AttentionBackward& call);
// Returns the bytes of workspace that attention_backward() needs; on CUDA, an upper bound over the implementations.
// Needs no device, so a plan is exact anywhere. `target` is the device type that will run the backward, cpu or cuda;
// for tensors on meta, the type that they represent. Throws InternalError for meta.
Size attention_backward_workspace(DeviceType target, DType dtype, const AttentionShape& shape, bool deterministic,
                                  bool documents = false);

// For generation: T new tokens of each sequence follow those in a cache of keys and values. Rotates queries and keys by
// their positions (rope.h), appends keys and values to the cache, and computes attention of the new queries. The rows
// may be rotated in place. The order of sums does not depend on B.
struct AttentionCached {
  DType dtype;
  AttentionShape shape;
  double scale;
  void *out_BTHD, *qkv;
  void *k_cache, *v_cache;  // [B, capacity, G*D]
  Size capacity;
  Size past = 0;  // tokens of each sequence in the cache
  // Replaces `past` by a number for each sequence; only for T = 1. On CUDA it must be written before the last kernel
  // that was not launched early (cuda/early_launch.cuh), which is the embedding at the beginning of a step.
  const std::int32_t* past_B = nullptr;
  double rope_base = 0;  // 0: no rotation
  RopeScaling rope_scaling{};
  void* workspace = nullptr;  // CUDA: attention_cached_workspace() bytes
};
template <class S>
void attention_cached(S stream, const AttentionCached& call);
// Returns the bytes of workspace that attention_cached() needs, like attention_backward_workspace().
Size attention_cached_workspace(DeviceType target, DType dtype, const AttentionShape& shape);

}  // namespace lt::kernels
