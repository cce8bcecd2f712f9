// A small transformer without an engine: forward and backward passes, and gradients by name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/kernels/random.h"
#include "libtrain/nn/models.h"
#include "libtrain/tensor/autograd.h"
#include "nn/model_family.h"
#include "ops/loss_pass.h"

namespace lt_test {

using lt::Size;

inline constexpr std::uint64_t kSeed = 1337;

inline std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const lt::nn::ModelFamily* family : lt::nn::families()) names.emplace_back(family->name);
  return names;
}

// Two blocks of a family, with its special features.
inline lt::nn::TransformerSpec two_blocks(const std::string& family) {
  lt::nn::TransformerSpec spec;
  spec.family = family, spec.layers = 2, spec.heads = 4, spec.kv_heads = family == "gpt2" ? 4 : 2;
  if (family == "mistral") spec.window = 3;
  if (family == "qwen3") spec.head_dim = 6;
  spec.width = 16, spec.ffn = 24, spec.vocab = 29, spec.max_seq = 12;
  return spec;
}

inline std::unique_ptr<lt::nn::Transformer> model_of(const lt::nn::TransformerSpec& spec, lt::DType dtype) {
  auto model = lt::nn::make_transformer(spec);
  model->materialize(lt::kCpu, dtype, kSeed);
  return model;
}

// Tokens of samples [first, first + count), the same for every caller; targets are the next tokens.
inline lt::Batch tokens_of(Size first, Size count, Size seq, Size vocab) {
  std::vector<std::int32_t> inputs, targets;
  for (Size sample = first; sample < first + count; ++sample) {
    for (Size t = 0; t <= seq; ++t) {
      const auto word = lt::philox_word(3, static_cast<std::uint64_t>(sample * 1000 + t));
      const auto token = static_cast<std::int32_t>(word % static_cast<std::uint64_t>(vocab));
      if (t < seq) inputs.push_back(token);
      if (t > 0) targets.push_back(token);
    }
  }
  return {lt::Tensor::from(inputs, {count, seq}), lt::Tensor::from(targets, {count, seq})};
}

struct Pass {
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
  bool operator==(const Pass&) const = default;
};

// Runs forward under `context` and backward outside it.
inline Pass run_pass(lt::nn::Model& model, const lt::Batch& batch, const lt::nn::ForwardContext& context = {}) {
  for (const lt::nn::NamedParameter& entry : model.all_parameters()) {
    *entry.parameter->tensor().gradient_slot() = {
        entry.parameter->shape(), entry.parameter->tensor().gradient_slot()->dtype, lt::kCpu, {}, false};
  }
  lt::Tape tape;
  lt::Tensor loss;
  {
    const lt::nn::ForwardScope scope(context);
    const lt::TapeScope recording(&tape);
    loss = model.loss(batch);
  }
  const lt::ops::LossPass* const from = context.loss.pass;
  lt::backward(tape, loss, from != nullptr ? from->gradient.value_or(1.0) : 1.0);
  Pass pass{loss.item(), {}};
  for (const lt::nn::NamedParameter& entry : model.all_parameters()) {
    const lt::Tensor gradient = entry.parameter->tensor().gradient();
    if (gradient.defined()) pass.gradients[entry.name] = gradient.to_vector<double>();
  }
  return pass;
}

}  // namespace lt_test
