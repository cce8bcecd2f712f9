// The constructors of layers, and the layers that several operations make up.
#include "libtrain/nn/layers.h"

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libtrain/error.h"

namespace lt::nn {
namespace {

// Returns `size`, the option `option` of a layer. Throws unless it is positive.
Size positive(std::string_view layer, std::string_view option, Size size) {
  if (size >= 1) return size;
  throw UsageError("nn", std::string(layer) + ": " + std::string(option), "at least 1", std::to_string(size));
}

// The standard deviation of Kaiming's uniform distribution with slope sqrt(5), for sums of `inputs` products (He et al.
// 2015). PyTorch's linear layers and convolutions begin with it, and PEFT's adapters.
Init kaiming(Size inputs) { return Init::normal(1 / std::sqrt(3 * static_cast<float>(inputs))); }

}  // namespace

Linear::Linear(Options options)
    : weight_(add_parameter("weight", {positive("Linear", "out", options.out), positive("Linear", "in", options.in)},
                            options.init.value_or(kaiming(options.in)))),
      bias_(options.bias ? &add_parameter("bias", {options.out}, Init::constant(0)) : nullptr),
      adapter_(std::move(options.adapter.shape)) {
  weight_.set_matrix_rows(std::move(options.parts));
  const Size rank = options.adapter.rank;
  if (rank == 0) return;
  if (adapter_.ranges.empty()) adapter_.ranges = {{0, options.out}};
  std::vector<Size> rows;
  Size adapted = 0;
  for (const ops::RowRange& range : adapter_.ranges) rows.push_back(range.size), adapted += range.size;
  lora_a_ = &add_parameter("lora_A", {static_cast<Size>(rows.size()) * rank, options.in}, kaiming(options.in));
  lora_b_ = &add_parameter("lora_B", {adapted, rank}, Init::constant(0));
  lora_a_->set_matrix_rows(std::vector<Size>(rows.size(), rank));
  lora_b_->set_matrix_rows(std::move(rows));
}

Conv1d::Conv1d(const Options& options)
    : in_(positive("Conv1d", "in", options.in)),
      kernel_(positive("Conv1d", "kernel", options.kernel)),
      padding_(options.padding),
      weight_(add_parameter("weight", {positive("Conv1d", "out", options.out), kernel_ * in_},
                            options.init.value_or(kaiming(kernel_ * in_)))),
      bias_(options.bias ? &add_parameter("bias", {options.out}, Init::constant(0)) : nullptr) {}

Tensor Conv1d::operator()(const Tensor& x) const {
  const Size added = padding_ == Padding::none ? 0 : kernel_ - 1;
  const Size left = padding_ == Padding::same ? added / 2 : added;
  if (x.dims() != 3 || x.dim(1) + added < kernel_ || x.dim(2) != in_) {
    throw UsageError("nn", "Conv1d: x",
                     "shape [samples, length, " + std::to_string(in_) + "] with a length of at least " +
                         std::to_string(kernel_ - added),
                     to_string(x.shape()));
  }
  std::vector<Tensor> pieces;
  const auto pad = [&](Size length) {
    if (length > 0) pieces.push_back(Tensor::zeros({x.dim(0), length, in_}, x.dtype(), x.device()));
  };
  pad(left);
  pieces.push_back(x);
  pad(added - left);
  const Tensor padded = pieces.size() == 1 ? x : ops::concat(pieces, 1);
  // Row t of `windows` is the rows t to t + kernel - 1 of `padded`.
  std::vector<Tensor> shifted;
  const Size length = padded.dim(1) - kernel_ + 1;
  for (Size k = 0; k < kernel_; ++k) shifted.push_back(ops::slice(padded, 1, k, length));
  const Tensor windows = ops::concat(shifted, 2);
  return ops::linear(windows, weight(), bias_ != nullptr ? bias_->tensor() : Tensor());
}

LayerNorm::LayerNorm(const Options& options)
    : weight_(add_parameter("weight", {positive("LayerNorm", "width", options.width)}, Init::constant(1))),
      bias_(add_parameter("bias", {options.width}, Init::constant(0))),
      eps_(options.eps) {}

RmsNorm::RmsNorm(const Options& options)
    : weight_(add_parameter("weight", {positive("RmsNorm", "width", options.width)}, Init::constant(1))),
      eps_(options.eps) {}

Embedding::Embedding(const Options& options)
    : weight_(add_parameter(
          "weight", {positive("Embedding", "count", options.count), positive("Embedding", "width", options.width)},
          options.init)) {}

Dropout::Dropout(const Options& options) : p_(options.p) {
  if (!(p_ >= 0 && p_ < 1)) throw UsageError("nn", "Dropout: p", "a number in [0, 1)", std::to_string(p_));
}

Tensor Dropout::operator()(const Tensor& x) const {
  if (path().empty() && ForwardContext::current().training) {
    throw UsageError("nn",
                     "Dropout: expected a module of a model's unit, whose name decides the mask, got one outside");
  }
  return dropout(x, p_, path());
}

}  // namespace lt::nn
