// Workspace sizes of attention on CUDA. A plan computes them on hosts without a device.
#include "kernels/attention_options.h"

#include <algorithm>

#include "libtrain/error.h"

namespace lt::kernels {
namespace {

Size padded(Size n, Size step) { return (n + step - 1) / step * step; }

// cuDNN pads lengths to its tiles of at most 128 tokens.
Size padded_length(const AttentionShape& s) { return padded(s.T, 128); }

// Gradients of the scores of one sequence, two bytes each.
Size score_gradient_bytes(const AttentionShape& s) { return 2 * s.H * padded_length(s) * padded_length(s); }

// delta = sum_D(dout * out), in the arithmetic type.
Size own_bytes(DType dtype, const AttentionShape& s) { return s.B * s.H * s.T * dtype_bytes(gradient_dtype(dtype)); }

// Workspace of cuDNN 9.19 with cudnn-frontend 1.18 on compute capability 9.0 and 10.0. For each query: dq in f32 to
// accumulate into, delta, and with grouped heads dk and dv of each query head; in deterministic mode the gradients of
// the scores instead of dq. Lengths and head sizes are padded here, and a MiB is added as a margin for other versions.
Size cudnn_bytes(const AttentionShape& s, bool deterministic) {
  constexpr Size kMargin = Size{1} << 20;
  const Size full = 4 * padded(s.D, 64), per_row = 4 + full + (s.G < s.H ? full : 0);
  const Size per_sequence = s.H * padded_length(s) * per_row + (deterministic ? score_gradient_bytes(s) : 0);
  return cudnn_backward_sequences(s, deterministic) * per_sequence + kMargin;
}

}  // namespace

bool may_run_on_cudnn(DType dtype, const AttentionShape& s) {
  return dtype_bytes(dtype) == 2 && s.D % 8 == 0 && s.D <= 256;
}

Size cudnn_backward_sequences(const AttentionShape& s, bool deterministic) {
  if (!deterministic) return s.B;
  return std::clamp(kScoreGradientBytes / std::max(score_gradient_bytes(s), Size{1}), Size{1}, std::max(s.B, Size{1}));
}

bool may_run_forward_on_hopper(DType dtype, const AttentionShape& s, bool documents) {
  return s.D == 64 && may_run_backward_on_hopper(dtype, s, documents);
}
bool may_run_backward_on_hopper(DType dtype, const AttentionShape& s, bool documents) {
  return dtype_bytes(dtype) == 2 && (s.D == 64 || s.D == 128) && s.G > 0 && s.H % s.G == 0 && s.T > 0 &&
         s.T % hopper_keys(s.D) == 0 && !documents && !s.window_hides();
}

// Compares two estimates. Their unit is a tile of kHopperQueries queries of one head; all tiles count the same.
bool hopper_takes_pairs(const AttentionShape& s, int multiprocessors) {
  const Size keys = hopper_keys(s.D), blocks = s.T / keys, pairs_of_head = blocks / 2,
             pairs = s.B * s.G * pairs_of_head;
  if (blocks % 2 != 0 || pairs_of_head > multiprocessors / 4) return false;
  const Size longest = s.T / kHopperQueries * (s.H / s.G);
  const Size pair = longest + keys / kHopperQueries * (s.H / s.G);
  const Size rounds = (pairs + multiprocessors - 1) / multiprocessors;
  return rounds * pair < pairs * pair / multiprocessors + longest / 2;
}

HopperWorkspace hopper_workspace(const AttentionShape& s) {
  const Size rows = s.B * s.H * s.T;
  HopperWorkspace w{};
  w.delta = rows * s.D * 4, w.added = w.delta + rows * 4, w.bytes = w.added + rows / kHopperQueries * (s.D / 64) * 4;
  return w;
}

Size document_batch_bytes(const AttentionShape& s) {
  const Size most = most_long_documents(s);
  return padded(4 * (most + 1) * Size{8} + most * Size{4}, 256);
}

bool may_run_documents_on_cudnn(DType dtype, const AttentionShape& s) {
  return may_run_on_cudnn(dtype, s) && s.D % 16 == 0 && most_long_documents(s) > 0;
}

// cudnn-frontend 1.18 asks for dq in f32 with the rows of dqkv, delta, and with grouped heads for dk and dv of each
// query head in f32. A MiB is added as a margin for other versions.
DocumentWorkspace document_workspace(const AttentionShape& s) {
  constexpr Size kMargin = Size{1} << 20;
  const Size tokens = s.B * s.T, gradient = padded(2 * tokens * s.G * s.D, 256);
  DocumentWorkspace w{};
  w.delta = document_batch_bytes(s);
  w.dk = w.delta + padded(own_bytes(DType::bf16, s), 256), w.dv = w.dk + gradient, w.cudnn = w.dv + gradient;
  w.cudnn_bytes = 4 * tokens * (s.row() + s.H + (s.G < s.H ? 2 * s.H * s.D : 0)) + kMargin;
  w.bytes = w.cudnn + w.cudnn_bytes;
  return w;
}

Size attention_backward_workspace(DeviceType target, DType dtype, const AttentionShape& shape, bool deterministic,
                                  bool documents) {
  if (target == DeviceType::cuda && documents) {
    const bool cudnn = !deterministic && may_run_documents_on_cudnn(dtype, shape);
    return cudnn ? document_workspace(shape).bytes : own_bytes(dtype, shape);
  }
  switch (target) {
    case DeviceType::cpu: return 0;  // each thread keeps its blocks in its own memory
    case DeviceType::cuda:
      return std::max({own_bytes(dtype, shape), may_run_on_cudnn(dtype, shape) ? cudnn_bytes(shape, deterministic) : 0,
                       may_run_backward_on_hopper(dtype, shape, false) ? hopper_workspace(shape).bytes : 0});
    case DeviceType::meta: break;
  }
  throw InternalError("attention", "expected the device that a plan is for, found meta");
}

bool is_whole_prompt(const AttentionCached& call) {
  return call.past_B == nullptr && call.past == 0 && call.shape.T > 1;
}

Size cached_queries_at_once(const AttentionShape& s) {
  const Size queries = s.G > 0 ? s.H / s.G : 1;
  return queries % 4 == 0 ? 4 : queries % 2 == 0 ? 2 : 1;
}

Size attention_cached_workspace(DeviceType target, DType dtype, const AttentionShape& s) {
  switch (target) {
    case DeviceType::cpu: return 0;
    case DeviceType::cuda:
      return dtype_bytes(gradient_dtype(dtype)) * (s.T > 1 ? s.B * s.H * s.T : s.B * s.H * kCachedParts * (s.D + 2));
    case DeviceType::meta: break;
  }
  throw InternalError("attention", "expected the device that a plan is for, found meta");
}

}  // namespace lt::kernels
