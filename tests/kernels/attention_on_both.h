// Attention on CUDA and on the CPU from the same inputs, forward and backward.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "kernels/attention_options.h"
#include "kernels/attention_tolerance.h"
#include "kernels/cuda/attention_hopper.h"
#include "kernels/device_array.h"
#include "kernels/documents.h"
#include "test_main/catch.h"

namespace lt::test::attention {

using kernels::AttentionPath;
using kernels::AttentionShape;

// Kernels on tensor cores also round probabilities and the gradients of scores, and their exponential and logarithm are
// approximate.
inline constexpr Tolerance kTensorCoreTolerance{1e-2, 1e-3, 2e-2};

// Settings of a call on CUDA. With `hopper` it must run on the kernels for compute capability 9.0, except the forward
// for heads of 128 channels, which they do not compute.
struct Settings {
  AttentionPath path = AttentionPath::automatic;
  bool deterministic = false;
  bool hopper = false;
};

struct Inputs {
  Array qkv, dout;
  double scale;
  std::vector<std::int32_t> starts;  // empty: sequences are single documents

  // Documents have the given `lengths`, in turn.
  Inputs(const AttentionShape& s, DType dtype, const std::vector<Size>& lengths) : Inputs(s, dtype) {
    starts = document_starts(s.B, s.T, lengths);
  }
  Inputs(const AttentionShape& s, DType dtype)
      : qkv(Array::random(dtype, s.B * s.T * s.row(), 1)),
        dout(Array::random(dtype, s.B * s.T * s.H * s.D, 2)),
        scale(1 / std::sqrt(static_cast<double>(s.D))) {}
};

struct Outputs {
  Array out, lse, dqkv;

  Outputs(const AttentionShape& s, DType dtype)
      : out(dtype, s.B * s.T * s.H * s.D, 99),
        lse(kernels::gradient_dtype(dtype), s.B * s.H * s.T, 99),
        dqkv(dtype, s.B * s.T * s.row(), 99) {}
  bool same_bits(const Outputs& o) const {
    return out.same_bits(o.out) && lse.same_bits(o.lse) && dqkv.same_bits(o.dqkv);
  }
};

inline Outputs on_cpu(const AttentionShape& s, DType dtype, const Inputs& in) {
  Outputs r(s, dtype);
  const std::int32_t* const starts = in.starts.empty() ? nullptr : in.starts.data();
  kernels::attention_forward(CpuStream{}, {.dtype = dtype,
                                           .shape = s,
                                           .scale = in.scale,
                                           .out_BTHD = r.out.data(),
                                           .lse_BHT = r.lse.data(),
                                           .qkv = in.qkv.data(),
                                           .starts_BT = starts});
  kernels::attention_backward(CpuStream{}, {.dtype = dtype,
                                            .shape = s,
                                            .scale = in.scale,
                                            .dqkv = r.dqkv.data(),
                                            .dout_BTHD = in.dout.data(),
                                            .qkv = in.qkv.data(),
                                            .out_BTHD = r.out.data(),
                                            .lse_BHT = r.lse.data(),
                                            .workspace = nullptr,
                                            .starts_BT = starts});
  return r;
}

inline Outputs on_cuda(const AttentionShape& s, DType dtype, const Inputs& in, const Settings& settings) {
  Outputs r(s, dtype);
  DeviceArray qkv(in.qkv), dout(in.dout), out(r.out), lse(r.lse), dqkv(r.dqkv);
  const Size workspace_bytes =
      kernels::attention_backward_workspace(DeviceType::cuda, dtype, s, settings.deterministic, !in.starts.empty());
  DeviceArray workspace(Array(DType::f32, workspace_bytes / 4, NAN));  // so that reading what was not written shows
  std::optional<DeviceArray> starts;
  if (!in.starts.empty()) starts.emplace(as_array(in.starts));
  const auto* const starts_BT = starts ? static_cast<const std::int32_t*>(starts->data()) : nullptr;
  const kernels::AttentionForward forward{dtype,      s,          in.scale,      out.data(),
                                          lse.data(), qkv.data(), settings.path, starts_BT};
  if (settings.hopper && kernels::may_run_forward_on_hopper(dtype, s, false)) {
    REQUIRE(kernels::hopper::attention_forward(gpu_stream(), forward));
  } else {
    kernels::attention_forward(gpu_stream(), forward);
  }
  const kernels::AttentionBackward backward{.dtype = dtype,
                                            .shape = s,
                                            .scale = in.scale,
                                            .dqkv = dqkv.data(),
                                            .dout_BTHD = dout.data(),
                                            .qkv = qkv.data(),
                                            .out_BTHD = out.data(),
                                            .lse_BHT = lse.data(),
                                            .workspace = workspace.data(),
                                            .deterministic = settings.deterministic,
                                            .path = settings.path,
                                            .starts_BT = starts_BT};
  if (settings.hopper) {
    REQUIRE(kernels::hopper::attention_backward(gpu_stream(), backward));
  } else {
    kernels::attention_backward(gpu_stream(), backward);
  }
  out.read(r.out), lse.read(r.lse), dqkv.read(r.dqkv);
  if (!in.starts.empty()) {  // [B, T, H]
    Array ordered(r.lse.dtype(), r.lse.count());
    for (Size i = 0; i < ordered.count(); ++i) {
      const Size t = i % s.T, h = i / s.T % s.H, b = i / s.T / s.H;
      ordered.set(i, r.lse[(b * s.T + t) * s.H + h]);
    }
    r.lse = std::move(ordered);
  }
  return r;
}

inline void compare(const AttentionShape& s, DType dtype, const Inputs& in, const Tolerance& tolerance,
                    const Settings& settings) {
  CAPTURE(s.B, s.T, s.H, s.G, s.D, s.window, dtype_name(dtype));
  const Outputs expected = on_cpu(s, dtype, in), found = on_cuda(s, dtype, in, settings);
  CHECK(attention_error(found.out, expected.out) <= tolerance.out);
  CHECK(attention_error(found.lse, expected.lse) <= tolerance.lse);
  CHECK(attention_error(found.dqkv, expected.dqkv) <= tolerance.gradient);
}

inline void compare(const AttentionShape& s, DType dtype, const Tolerance& tolerance, const Settings& settings = {}) {
  compare(s, dtype, Inputs(s, dtype), tolerance, settings);
}

}  // namespace lt::test::attention
