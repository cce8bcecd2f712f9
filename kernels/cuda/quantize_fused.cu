// Activations, their gradients, and norms, with results written in e4m3.
#include "kernels/cuda/activation_functions.cuh"
#include "kernels/cuda/quantize_rows.cuh"

namespace lt::kernels {
namespace {

using Values = Sixteen<bf16>;

struct OfGelu {
  static constexpr int kParts = 1;
  const bf16* x_RC;
  Size C;

  __device__ Values at(Size r, int at, int) const {
    const Values x = Values::at(x_RC + r * C + 16 * at);
    return Values::of([&](int k) { return gelu(x[k]); });
  }
};

struct OfGeluGradient {
  static constexpr int kParts = 1;
  const bf16 *dy_RC, *x_RC;
  Size C;

  __device__ Values at(Size r, int at, int) const {
    const Values dy = Values::at(dy_RC + r * C + 16 * at), x = Values::at(x_RC + r * C + 16 * at);
    return Values::of([&](int k) { return dy[k] * gelu_derivative(x[k]); });
  }
};

struct OfSwiGlu {
  static constexpr int kParts = 1;
  const bf16* x_R2F;
  Size F;

  __device__ Values at(Size r, int at, int) const {
    const bf16* const x = x_R2F + r * 2 * F + 16 * at;
    const Values gate = Values::at(x), up = Values::at(x + F);
    return Values::of([&](int k) { return gate[k] * sigmoid(gate[k]) * up[k]; });
  }
};

// Rows of [gate | up].
struct OfSwiGluGradient {
  static constexpr int kParts = 2;
  const bf16 *dy_RF, *x_R2F;
  Size F;

  __device__ Values at(Size r, int at, int part) const {
    const bf16* const x = x_R2F + r * 2 * F + 16 * at;
    const Values gate = Values::at(x), up = Values::at(x + F), dy = Values::at(dy_RF + r * F + 16 * at);
    return Values::of([&](int k) {
      const float g = gate[k], s = sigmoid(g);
      return part == 0 ? dy[k] * up[k] * silu_derivative(g, s) : dy[k] * (g * s);
    });
  }
};

// Products and sums are not left to the compiler to join, which might do so in one kernel and not in another.
template <bool kCentred>
struct OfNorm {
  static constexpr int kParts = 1;
  float *mean_R, *rstd_R;
  const bf16 *x_RC, *w_C, *b_C;
  float eps;
  Size C;

  template <int kHeld>
  __device__ void load(HeldRow<kHeld, 1>& row, Size r) const {
    float sum = 0, squares = 0;
    row.for_each([&](Values& values, int at, int) {
      values = Values::at(x_RC + r * C + 16 * at);
#pragma unroll
      for (int k = 0; k < 16; ++k) sum += values[k];
    });
    const float mean = kCentred ? block_sum(sum) / static_cast<float>(C) : 0.0f;
    row.for_each([&](const Values& values, int, int) {
#pragma unroll
      for (int k = 0; k < 16; ++k) {
        const float d = values[k] - mean;
        squares = __fmaf_rn(d, d, squares);
      }
    });
    const float rstd = 1 / sqrtf(block_sum(squares) / static_cast<float>(C) + eps);
    row.for_each([&](Values& values, int at, int) {
      const Values x = values, w = Values::at(w_C + 16 * at), b = b_C != nullptr ? Values::at(b_C + 16 * at) : Values{};
      values = Values::of([&](int k) { return __fadd_rn(__fmul_rn(__fmul_rn(x[k] - mean, rstd), w[k]), b[k]); });
    });
    if (threadIdx.x > 0) return;
    if (kCentred) mean_R[r] = mean;
    rstd_R[r] = rstd;
  }
};

template <bool kCentred>
OfNorm<kCentred> source_of(const LayerNormForward& n) {
  return {static_cast<float*>(n.mean_R),
          static_cast<float*>(n.rstd_R),
          static_cast<const bf16*>(n.x_RC),
          static_cast<const bf16*>(n.w_C),
          static_cast<const bf16*>(n.b_C),
          n.eps,
          n.C};
}

LayerNormForward without_mean(const RmsNormForward& n) {
  return {n.dtype, n.R, n.C, n.y_RC, nullptr, n.rstd_R, n.x_RC, n.w_C, nullptr, n.eps};
}

}  // namespace

template <>
void quantize_gelu(CudaStream stream, e4m3* y_RC, float* scales_R, const bf16* x_RC, Size R, Size C) {
  launch_quantize_rows(stream, y_RC, scales_R, OfGelu{x_RC, C}, R, C);
}

template <>
void quantize_gelu_backward(CudaStream stream, e4m3* dx_RC, float* scales_R, const bf16* dy_RC, const bf16* x_RC,
                            Size R, Size C) {
  launch_quantize_rows(stream, dx_RC, scales_R, OfGeluGradient{dy_RC, x_RC, C}, R, C);
}

template <>
void quantize_swiglu(CudaStream stream, e4m3* y_RF, float* scales_R, const bf16* x_R2F, Size R, Size F) {
  launch_quantize_rows(stream, y_RF, scales_R, OfSwiGlu{x_R2F, F}, R, F);
}

template <>
void quantize_swiglu_backward(CudaStream stream, e4m3* dx_R2F, float* scales_R, const bf16* dy_RF, const bf16* x_R2F,
                              Size R, Size F) {
  launch_quantize_rows(stream, dx_R2F, scales_R, OfSwiGluGradient{dy_RF, x_R2F, F}, R, 2 * F);
}

template <>
void quantize_layer_norm(CudaStream stream, e4m3* y_RC, float* scales_R, const LayerNormForward& n) {
  launch_quantize_rows(stream, y_RC, scales_R, source_of<true>(n), n.R, n.C);
}

template <>
void quantize_rms_norm(CudaStream stream, e4m3* y_RC, float* scales_R, const RmsNormForward& n) {
  launch_quantize_rows(stream, y_RC, scales_R, source_of<false>(without_mean(n)), n.R, n.C);
}

template <>
void write_layer_norm(CudaStream stream, const LayerNormForward& n) {
  launch_write_rows(stream, static_cast<bf16*>(n.y_RC), source_of<true>(n), n.R, n.C);
}

template <>
void write_rms_norm(CudaStream stream, const RmsNormForward& n) {
  launch_write_rows(stream, static_cast<bf16*>(n.y_RC), source_of<false>(without_mean(n)), n.R, n.C);
}

}  // namespace lt::kernels
