// Attention forward and backward in three ways, each compared with the naive one before it is timed.
#include <fmt/format.h>

#include <cmath>

#include "attention_paths.h"
#include "kernel_case.h"
#include "tensor/dispatch.h"

namespace lt::bench {
namespace {

class TiledAttention final : public AttentionPath {
 public:
  explicit TiledAttention(const AttentionInputs& inputs)
      : AttentionPath(inputs),
        lse_(Tensor::empty({inputs.matrix() / inputs.shape.T}, DType::f32, inputs.qkv.device())),
        workspace_(Tensor::empty(
            {kernels::attention_backward_workspace(inputs.qkv.device().type, inputs.qkv.dtype(), inputs.shape)},
            DType::u8, inputs.qkv.device())) {}

  void forward() override {
    dispatch(out_.device(), [&](auto s) {
      kernels::attention_forward(s, out_.dtype(), out_.data(), lse_.data(), in_.qkv.data(), in_.shape, in_.scale);
    });
  }
  void backward() override {
    dispatch(out_.device(), [&](auto s) {
      kernels::attention_backward(s, out_.dtype(), dqkv_.data(), in_.dout.data(), in_.qkv.data(), out_.data(),
                                  lse_.data(), workspace_.data(), in_.shape, in_.scale);
    });
  }

 private:
  Tensor lse_, workspace_;
};

// T x T matrices that a path keeps, and bytes of their elements where those are not of the inputs' dtype.
struct Implementation {
  const char* name;
  std::unique_ptr<AttentionPath> (*make)(const AttentionInputs&);
  Size matrices, element_bytes;
};
constexpr Implementation kImplementations[] = {
    {"naive", naive_attention, 2, 4}, {"tiled", tiled_attention, 0, 0}, {"library", library_attention, 3, 0}};

// Outputs of about 1. f32: sums of a few thousand terms of 2^-24 each. bf16: the library's scores and their gradients
// are rounded to 8 bits before they go on, which the other two do not do.
double tolerance(DType dtype) { return dtype == DType::f32 ? 5e-5 : 5e-2; }

PreparedKernel prepare(const Implementation& implementation, const kernels::AttentionShape& shape, DType dtype,
                       Device device, bool backward, bool compare) {
  const AttentionInputs inputs{shape, 1 / std::sqrt(static_cast<double>(shape.D)),
                               random_values({shape.B, shape.T, shape.row()}, dtype, device),
                               random_values({shape.B, shape.T, shape.H * shape.D}, dtype, device)};
  const std::shared_ptr<AttentionPath> path = implementation.make(inputs);
  const auto run = [backward](AttentionPath& p) { backward ? p.backward() : p.forward(); };
  path->forward();
  path->backward();
  PreparedKernel prepared{[=] { run(*path); }};
  if (compare) {
    const auto reference = naive_attention(inputs);
    reference->forward();
    if (backward) reference->backward();
    prepared.max_error = backward ? error_of(path->dqkv(), reference->dqkv()) : error_of(path->out(), reference->out());
  }
  return prepared;
}

// Products of the visible half: two of scores' size forward, five backward.
Size flops(const kernels::AttentionShape& s, bool backward) {
  return (backward ? 5 : 2) * s.B * s.H * s.D * s.T * (s.T + 1);
}

// Forward: qkv, out, lse. Backward: qkv, out, dout, lse and dqkv.
Size bytes(const kernels::AttentionShape& s, DType dtype, bool backward) {
  const Size rows = s.B * s.T, packed = rows * s.row(), heads = rows * s.H * s.D;
  return (backward ? 2 * packed + 2 * heads : packed + heads) * dtype_bytes(dtype) + 4 * rows * s.H;
}

}  // namespace

double error_of(const Tensor& x, const Tensor& reference) {
  const auto values = x.to_vector<float>(), expected = reference.to_vector<float>();
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::fabs(values[i] - expected[i]) / (1 + std::fabs(expected[i]));
    worst = std::isfinite(error) ? std::max(worst, error) : HUGE_VAL;
  }
  return worst;
}

AttentionPath::AttentionPath(const AttentionInputs& inputs)
    : in_(inputs),
      out_(Tensor::empty(inputs.dout.shape(), inputs.dout.dtype(), inputs.dout.device())),
      dqkv_(Tensor::empty(inputs.qkv.shape(), inputs.qkv.dtype(), inputs.qkv.device())) {}

std::unique_ptr<AttentionPath> tiled_attention(const AttentionInputs& inputs) {
  return std::make_unique<TiledAttention>(inputs);
}

void add_attention_cases(KernelCases& cases, const KernelSizes& sizes) {
  const nn::TransformerSpec& spec = sizes.spec;
  const kernels::AttentionShape shape{sizes.B, sizes.T, spec.heads, spec.kv_heads, spec.head_dim()};
  const Size matrix = shape.B * shape.H * shape.T * shape.T;
  const Size naive_bytes = 2 * 4 * matrix;
  for (const DType dtype : kBenchDTypes) {
    for (const bool backward : {false, true}) {
      for (const Implementation& implementation : kImplementations) {
        const Size element = implementation.element_bytes > 0 ? implementation.element_bytes : dtype_bytes(dtype);
        // Where the naive one is too large to run, the kernel is timed all the same.
        const bool compare = implementation.make != naive_attention && naive_bytes <= kMostMatrixBytes;
        cases.push_back(
            {backward ? "attention.backward" : "attention.forward",
             fmt::format("B={} T={} H={} G={} D={}", shape.B, shape.T, shape.H, shape.G, shape.D), dtype, Work::product,
             flops(shape, backward), bytes(shape, dtype, backward),
             [=, device = sizes.device] { return prepare(implementation, shape, dtype, device, backward, compare); },
             implementation.name, 0, tolerance(dtype), implementation.matrices * element * matrix});
      }
    }
  }
}

}  // namespace lt::bench
