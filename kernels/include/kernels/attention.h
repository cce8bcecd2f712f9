// Causal attention with grouped key/value heads on packed rows, blockwise with a running softmax: no T x T matrix, in
// either direction (Dao et al. 2022; Milakov & Gimelshein 2018 for the running softmax).
// A packed row is [query heads | key heads | value heads] = [H*D | G*D | G*D]; query head h reads key/value head h*G/H.
// With a window, a position sees itself and window - 1 positions before it (Beltagy et al. 2020).
#pragma once

#include "kernels/common.h"

namespace lt::kernels {

struct AttentionShape {
  Size B, T, H, G, D;
  Size window = 0;  // 0: all earlier positions

  constexpr Size row() const { return (H + 2 * G) * D; }
  // Position i sees positions first_seen(i) .. i.
  constexpr Size first_seen(Size i) const { return window > 0 && i >= window ? i - window + 1 : 0; }
};

// out_BTHD = softmax(scale * q k^T, causal) v; lse_BHT = log of the sum of exponentials (f32, f64 for f64).
template <class S>
void attention_forward(S stream, DType dtype, void* out_BTHD, void* lse_BHT, const void* qkv,
                       const AttentionShape& shape, double scale);

// dqkv is overwritten. `workspace` has attention_backward_workspace() bytes of the stream's device.
template <class S>
void attention_backward(S stream, DType dtype, void* dqkv, const void* dout_BTHD, const void* qkv, const void* out_BTHD,
                        const void* lse_BHT, void* workspace, const AttentionShape& shape, double scale);
// Known without the device, so that a plan is exact anywhere: on CUDA a bound of what either implementation asks.
// `target` is where the backward will run, cpu or cuda: for tensors on meta, the device that they stand for.
// On CUDA it depends on set_deterministic(). Throws InternalError for meta.
Size attention_backward_workspace(DeviceType target, DType dtype, const AttentionShape& shape);

// For generation: T new queries at positions past .. past+T-1 against a cache of past+T keys and values.
// q rows are `q_row` elements apart; the caches are [B, capacity, G*D] and already hold the new keys and values.
template <class S>
void attention_cached(S stream, DType dtype, void* out_BTHD, const void* q, Size q_row, const void* k_cache,
                      const void* v_cache, Size capacity, Size past, const AttentionShape& shape, double scale);

}  // namespace lt::kernels
