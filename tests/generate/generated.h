// Tiny models whose greedy text is not a repetition, and their texts with and without a cache.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/generate/generate.h"
#include "libtrain/nn/models.h"

namespace lt_test {

using namespace lt;

inline nn::TransformerSpec tiny(const std::string& family, Size max_seq = 24) {
  nn::TransformerSpec spec{.layers = 2, .heads = 4, .width = 32, .vocab = 61, .max_seq = max_seq};
  spec.family = family;
  if (family != "gpt2") spec.kv_heads = 2;
  return spec;
}

inline std::unique_ptr<nn::Transformer> model_of(const nn::TransformerSpec& spec, DType dtype = DType::f32,
                                                 Device device = kCpu) {
  auto model = nn::make_transformer(spec);
  model->materialize(device, dtype, 5);
  for (const nn::NamedParameter& entry : model->all_parameters()) {  // far from uniform logits
    if (entry.parameter->shape().dims() < 2) continue;
    const Tensor& values = entry.parameter->tensor();
    copy(values.detach(), ops::scale(values.detach(), 12));
  }
  return model;
}

inline std::vector<Generator::Tokens> generated(nn::Transformer& model, const std::vector<Generator::Tokens>& prompts,
                                                const SamplingOptions& options) {
  std::vector<Generator::Tokens> rows(prompts.size() * static_cast<std::size_t>(options.continuations));
  generate(model, prompts, options, [&](Size row, std::uint32_t token) {
    rows[static_cast<std::size_t>(row)].push_back(token);
    return true;
  });
  return rows;
}

// Greedy tokens without a cache: each step reads the whole text, of which the window slides as documented.
inline Generator::Tokens without_cache(nn::Transformer& model, Generator::Tokens text, Size tokens) {
  const Device device = model.all_parameters().front().parameter->tensor().device();
  Generator::Tokens found;
  for (Size i = 0; i < tokens; ++i) {
    const auto capacity = static_cast<std::size_t>(model.spec().max_seq);
    if (text.size() > capacity) text.erase(text.begin(), text.end() - static_cast<std::ptrdiff_t>(capacity / 2));
    const std::vector<std::int32_t> ids(text.begin(), text.end());
    const auto count = static_cast<Size>(ids.size());
    const std::vector<float> logits =
        model.logits(Tensor::from(ids, {1, count}, device)).narrow(1, count - 1, 1).to_vector<float>();
    found.push_back(static_cast<std::uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    text.push_back(found.back());
  }
  return found;
}

}  // namespace lt_test
