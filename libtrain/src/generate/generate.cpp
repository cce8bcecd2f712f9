// Continues prompts by a number of tokens.
#include "libtrain/generate/generate.h"

#include <algorithm>
#include <functional>

namespace lt {

GenerationTiming generate(nn::Transformer& model, const std::vector<Generator::Tokens>& prompts,
                          const SamplingOptions& options, const std::function<bool(Size, std::uint32_t)>& emit) {
  if (prompts.empty() || options.tokens == 0) return {};
  const Size rows = static_cast<Size>(prompts.size()) * std::max<Size>(1, options.continuations);
  Generator generator(model, rows, options);
  for (Size r = 0; r < rows; ++r) generator.append(r, prompts[static_cast<std::size_t>(r / options.continuations)]);
  if (model.all_parameters().front().parameter->tensor().device().is_meta()) {
    // To plan memory, a prefill and a decode are enough, and the prefill of what is kept where the window slides.
    for (int pass = 0; pass < 2; ++pass) generator.step();
    const Size max_seq = model.spec().max_seq;
    const auto slides = [&](const Generator::Tokens& prompt) {
      return static_cast<Size>(prompt.size()) + options.tokens - 1 > max_seq;
    };
    if (std::none_of(prompts.begin(), prompts.end(), slides)) return {};
    generator.append(0, Generator::Tokens(static_cast<std::size_t>(max_seq)));
    generator.step();
    return {};
  }
  std::vector<bool> has_ended(static_cast<std::size_t>(rows));
  for (Size produced = 1;
       produced <= options.tokens && !std::all_of(has_ended.begin(), has_ended.end(), std::identity()); ++produced) {
    const Generator::Tokens& tokens = generator.step();
    for (std::size_t r = 0; r < tokens.size(); ++r) {
      if (has_ended[r] || emit(static_cast<Size>(r), tokens[r])) continue;
      has_ended[r] = true;
      generator.end(static_cast<Size>(r));
    }
  }
  return generator.timing();
}

GenerationTiming generate(nn::Transformer& model, const Generator::Tokens& prompt, const SamplingOptions& options,
                          const std::function<void(std::uint32_t)>& emit) {
  return generate(model, std::vector<Generator::Tokens>{prompt}, options,
                  [&](Size, std::uint32_t token) { return emit(token), true; });
}

std::vector<std::uint32_t> sample(nn::Transformer& model, const std::vector<std::uint32_t>& prompt,
                                  std::uint64_t seed) {
  std::vector<std::uint32_t> tokens;
  generate(model, prompt, {.tokens = 256, .temperature = 0.8, .seed = seed},
           [&](std::uint32_t token) { tokens.push_back(token); });
  return tokens;
}

}  // namespace lt
