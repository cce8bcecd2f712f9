// Attention forward and backward in several implementations. Each implementation is compared with naive attention
// before it is timed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bench/attention_methods.h"
#include "bench/kernel_case.h"
#include "kernels/attention_options.h"
#include "tensor/dispatch.h"

namespace lt::bench {
namespace {

class KernelAttention final : public AttentionMethod {
 public:
  KernelAttention(const AttentionInputs& inputs, kernels::AttentionPath path)
      : AttentionMethod(inputs),
        path_(path),
        lse_(Tensor::empty({inputs.matrix() / inputs.shape.T}, DType::f32, inputs.qkv.device())),
        workspace_(Tensor::empty(
            {kernels::attention_backward_workspace(inputs.qkv.device().type, inputs.qkv.dtype(), inputs.shape, false,
                                                   inputs.document_starts.defined())},
            DType::u8, inputs.qkv.device())) {}

  void forward() override {
    tensor::dispatch(out_.device(), [&](auto s) {
      kernels::attention_forward(s, {.dtype = out_.dtype(),
                                     .shape = in_.shape,
                                     .scale = in_.scale,
                                     .out_BTHD = out_.data(),
                                     .lse_BHT = lse_.data(),
                                     .qkv = in_.qkv.data(),
                                     .path = path_,
                                     .starts_BT = starts()});
    });
  }
  void backward() override {
    tensor::dispatch(out_.device(), [&](auto s) {
      kernels::attention_backward(s, {.dtype = out_.dtype(),
                                      .shape = in_.shape,
                                      .scale = in_.scale,
                                      .dqkv = dqkv_.data(),
                                      .dout_BTHD = in_.dout.data(),
                                      .qkv = in_.qkv.data(),
                                      .out_BTHD = out_.data(),
                                      .lse_BHT = lse_.data(),
                                      .workspace = workspace_.data(),
                                      .path = path_,
                                      .starts_BT = starts()});
    });
  }

 private:
  const std::int32_t* starts() const {
    return in_.document_starts.defined() ? in_.document_starts.data<std::int32_t>() : nullptr;
  }

  kernels::AttentionPath path_;
  Tensor lse_, workspace_;
};

// The first implementation of a list is the reference for the others. `matrices` counts the T x T matrices that it
// keeps. `element_bytes` is the size of their elements; 0 means that of the inputs' dtype.
struct Implementation {
  const char* name;
  std::unique_ptr<AttentionMethod> (*make)(const AttentionInputs&);
  Size matrices, element_bytes;
};
using Implementations = std::vector<Implementation>;

Implementations implementations(const kernels::AttentionShape& shape, DType dtype, Device device) {
  if (device.type != DeviceType::cuda) {
    return {{"naive", naive_attention, 2, 4}, {"tiled", tiled_attention, 0, 0}, {"library", library_attention, 3, 0}};
  }
  Implementations all = {{"naive", library_attention, 3, 0}, {"tiled", tiled_attention, 0, 0}};
  if (kernels::may_run_on_cudnn(dtype, shape)) all.push_back({"library", cudnn_attention, 0, 0});
  all.push_back({"automatic", automatic_attention, 0, 0});
  return all;
}

// Outputs are about 1. f32: sums of a few thousand terms of 2^-24 each. bf16: library_attention() rounds the scores and
// their gradients to 8 bits between operations. Kernels on tensor cores round probabilities and score gradients.
double tolerance(DType dtype) { return dtype == DType::f32 ? 5e-5 : 5e-2; }

// `starts` as Batch::document_starts, or undefined.
AttentionInputs random_inputs(const kernels::AttentionShape& shape, DType dtype, Device device,
                              const Tensor& starts = {}) {
  return {shape, 1 / std::sqrt(static_cast<double>(shape.D)),
          random_values({shape.B, shape.T, shape.row()}, dtype, device),
          random_values({shape.B, shape.T, shape.H * shape.D}, dtype, device), starts};
}

PreparedKernel prepare(const Implementation& implementation, const Implementation& first,
                       const kernels::AttentionShape& shape, DType dtype, Device device, bool backward, bool compare) {
  const AttentionInputs inputs = random_inputs(shape, dtype, device);
  const std::shared_ptr<AttentionMethod> method = implementation.make(inputs);
  const auto run = [backward](AttentionMethod& m) { backward ? m.backward() : m.forward(); };
  method->forward();
  method->backward();
  PreparedKernel prepared{[=] { run(*method); }};
  if (compare) {
    const auto reference = first.make(inputs);
    reference->forward();
    if (backward) reference->backward();
    prepared.max_error =
        backward ? error_of(method->dqkv(), reference->dqkv()) : error_of(method->out(), reference->out());
  }
  return prepared;
}

// Documents of `length` tokens along each row. The first implementation is the reference here too.
PreparedKernel prepare_documents(const Implementation& implementation, const Implementation& first,
                                 const kernels::AttentionShape& shape, Size length, DType dtype, Device device,
                                 bool backward) {
  std::vector<std::int32_t> starts(static_cast<std::size_t>(shape.B * shape.T));
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const Size t = static_cast<Size>(i) % shape.T;
    starts[i] = static_cast<std::int32_t>(t - t % length);
  }
  const AttentionInputs inputs = random_inputs(shape, dtype, device, Tensor::from(starts, {shape.B, shape.T}, device));
  const std::shared_ptr<AttentionMethod> method = implementation.make(inputs);
  method->forward(), method->backward();
  PreparedKernel prepared{[=] { backward ? method->backward() : method->forward(); }};
  if (implementation.make == first.make) return prepared;
  const auto reference = first.make(inputs);
  reference->forward(), reference->backward();
  prepared.max_error =
      backward ? error_of(method->dqkv(), reference->dqkv()) : error_of(method->out(), reference->out());
  return prepared;
}

// Matmuls over the visible half: two of the scores' size forward, five backward.
Size flops(const kernels::AttentionShape& s, bool backward) {
  return (backward ? 5 : 2) * s.B * s.H * s.D * s.T * (s.T + 1);
}

// Forward: qkv, out, lse. Backward: qkv, out, dout, lse and dqkv.
Size bytes(const kernels::AttentionShape& s, DType dtype, bool backward) {
  const Size rows = s.B * s.T, packed = rows * s.row(), heads = rows * s.H * s.D;
  return (backward ? 2 * packed + 2 * heads : packed + heads) * dtype_bytes(dtype) + 4 * rows * s.H;
}

// Rows of four documents.
void add_document_cases(KernelCases& cases, const kernels::AttentionShape& shape, DType dtype, Device device) {
  const Size length = std::max<Size>(1, shape.T / 4);
  Implementations all{{"tiled", tiled_attention, 0, 0}};
  const bool cudnn = device.type == DeviceType::cuda && kernels::may_run_documents_on_cudnn(dtype, shape);
  if (cudnn && length >= kernels::kLongDocument) all.push_back({"library", cudnn_attention, 0, 0});
  kernels::AttentionShape documents = shape;
  documents.B = shape.B * shape.T / length, documents.T = length;
  for (const bool backward : {false, true}) {
    for (const Implementation& chosen : all) {
      cases.push_back(
          {backward ? "attention_documents.backward" : "attention_documents.forward",
           fmt::format("B={} T={} H={} G={} D={}", shape.B, shape.T, shape.H, shape.G, shape.D), dtype, Work::matmul,
           flops(documents, backward), bytes(shape, dtype, backward) + 4 * shape.B * shape.T,
           [=, first = all[0]] { return prepare_documents(chosen, first, shape, length, dtype, device, backward); },
           chosen.name, 0, tolerance(dtype)});
    }
  }
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

AttentionMethod::AttentionMethod(const AttentionInputs& inputs)
    : in_(inputs),
      out_(Tensor::empty(inputs.dout.shape(), inputs.dout.dtype(), inputs.dout.device())),
      dqkv_(Tensor::empty(inputs.qkv.shape(), inputs.qkv.dtype(), inputs.qkv.device())) {}

std::unique_ptr<AttentionMethod> tiled_attention(const AttentionInputs& inputs) {
  return std::make_unique<KernelAttention>(inputs, kernels::AttentionPath::own);
}

std::unique_ptr<AttentionMethod> cudnn_attention(const AttentionInputs& inputs) {
  return std::make_unique<KernelAttention>(inputs, kernels::AttentionPath::cudnn);
}

std::unique_ptr<AttentionMethod> automatic_attention(const AttentionInputs& inputs) {
  return std::make_unique<KernelAttention>(inputs, kernels::AttentionPath::automatic);
}

void add_attention_cases(KernelCases& cases, const KernelSizes& sizes) {
  const nn::TransformerSpec& spec = sizes.spec;
  const Device device = sizes.device;
  const kernels::AttentionShape shape{sizes.B, sizes.T, spec.heads, spec.kv_heads, spec.head_dim};
  const Size matrix = shape.B * shape.H * shape.T * shape.T;
  for (const DType dtype : kBenchDTypes) {
    const Implementations all = implementations(shape, dtype, device);
    const auto matrix_bytes = [=](const Implementation& implementation) {
      const Size element = implementation.element_bytes > 0 ? implementation.element_bytes : dtype_bytes(dtype);
      return implementation.matrices * element * matrix;
    };
    for (const bool backward : {false, true}) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        // A reference that is too large to run is skipped; the kernel is still timed.
        const bool compare = i > 0 && matrix_bytes(all[0]) <= most_matrix_bytes(device);
        cases.push_back({backward ? "attention.backward" : "attention.forward",
                         fmt::format("B={} T={} H={} G={} D={}", shape.B, shape.T, shape.H, shape.G, shape.D), dtype,
                         Work::matmul, flops(shape, backward), bytes(shape, dtype, backward),
                         [=, first = all[0], chosen = all[i]] {
                           return prepare(chosen, first, shape, dtype, device, backward, compare);
                         },
                         all[i].name, 0, tolerance(dtype), matrix_bytes(all[i])});
      }
    }
    add_document_cases(cases, shape, dtype, device);
  }
}

}  // namespace lt::bench
