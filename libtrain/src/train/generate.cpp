// Generates tokens with a cache of keys and values.
#include "libtrain/train/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "libtrain/kernels/random.h"
#include "parallel/step_memory.h"
#include "train/seconds.h"

namespace lt {
namespace {

// Returns tokens[begin, end) as i32 [1, T]; on a meta device only the shape.
Tensor token_row(const std::vector<std::uint32_t>& tokens, std::size_t begin, Device device) {
  std::vector<std::int32_t> ids(tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.end());
  const auto count = static_cast<Size>(ids.size());
  return device.is_meta() ? Tensor::empty({1, count}, DType::i32, device) : Tensor::from(ids, {1, count}, device);
}

// Rehearses one pass over new tokens, with `length` tokens in the cache, on a meta model of the same shape.
StepMemory::Rehearsal rehearsal(const nn::TransformerSpec& spec, Device device, DType dtype, Size length) {
  return [=, meta = meta_for(device)](const std::string& name, const Batch& shapes) {
    const UncountedMemoryScope no_memory;
    const auto twin = nn::make_transformer(spec);
    twin->materialize(meta, dtype, 0);
    nn::DecodeState state = twin->decode_state(1, spec.max_seq);
    state.length = length;
    for (ops::KvCache& cache : state.layers) cache.length = length;
    const Tensor row = Tensor::empty({1, 1, spec.vocab}, DType::f32, meta);
    return record_memory_plan(name, meta, [&] { copy(row, twin->logits(shapes.inputs, &state)); });
  };
}

// Picks the next token from one row of logits: temperature, then the top k, then the smallest set of probability top_p.
std::uint32_t pick(const std::vector<float>& logits, const SamplingOptions& options, float uniform) {
  if (options.temperature == 0) {
    return static_cast<std::uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::vector<std::uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return logits[a] > logits[b]; });
  std::size_t kept = order.size();
  if (options.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(options.top_k));
  std::vector<double> weights(kept);
  double total = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    weights[i] = std::exp((static_cast<double>(logits[order[i]]) - logits[order[0]]) / options.temperature);
    total += weights[i];
  }
  double cumulative = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    cumulative += weights[i];
    if (cumulative >= options.top_p * total) {
      kept = i + 1, total = cumulative;
      break;
    }
  }
  double rest = uniform * total;
  for (std::size_t i = 0; i < kept; ++i) {
    rest -= weights[i];
    if (rest < 0) return order[i];
  }
  return order[kept - 1];
}

}  // namespace

GenerationTiming generate(nn::Transformer& model, const std::vector<std::uint32_t>& prompt,
                          const SamplingOptions& options, const std::function<void(std::uint32_t)>& emit) {
  const Size capacity = model.spec().max_seq;
  const std::uint64_t key = derive_key(options.seed, "sample");
  std::vector<std::uint32_t> context = prompt;
  if (context.empty()) context.push_back(0);
  const nn::Parameter& any = *model.all_parameters().front().parameter;
  const DType dtype = any.tensor().dtype();
  const Device device = any.tensor().device();
  nn::DecodeState state = model.decode_state(1, capacity);
  const Tensor row = Tensor::empty({1, 1, model.spec().vocab}, DType::f32, device);
  StepMemory memory(device);
  GenerationTiming timing;
  for (Size produced = 0; produced < options.tokens; ++produced) {
    std::size_t begin = static_cast<std::size_t>(state.length);
    const bool prefill = begin == 0 || static_cast<Size>(context.size()) > capacity;
    if (static_cast<Size>(context.size()) > capacity) {
      context.erase(context.begin(), context.end() - std::max<Size>(1, capacity / 2));
      begin = 0;
    }
    if (begin == 0) {
      state.length = 0;
      for (ops::KvCache& cache : state.layers) cache.length = 0;
    }
    const auto start = std::chrono::steady_clock::now();
    const Tensor tokens = token_row(context, begin, device);
    memory.run(prefill ? "prefill" : "decode", {tokens, {}}, rehearsal(model.spec(), device, dtype, state.length),
               [&] { copy(row, model.logits(tokens, &state)); });
    if (device.is_meta()) {  // to plan memory, one prefill and one decode are enough
      if (!prefill) break;
      context.push_back(0);
      continue;
    }
    const std::vector<float> logits = row.to_vector<float>();
    (prefill ? timing.prefill_s : timing.decode_s) += seconds_since(start);
    (prefill ? timing.prefill_tokens : timing.decode_tokens) += tokens.elements();
    const auto index = static_cast<std::uint64_t>(produced);
    context.push_back(pick(logits, options, uniform_from(philox_word(key, index))));
    emit(context.back());
  }
  return timing;
}

std::vector<std::uint32_t> sample(nn::Transformer& model, const std::vector<std::uint32_t>& prompt,
                                  std::uint64_t seed) {
  std::vector<std::uint32_t> tokens;
  generate(model, prompt, {.tokens = 256, .temperature = 0.8, .seed = seed},
           [&](std::uint32_t token) { tokens.push_back(token); });
  return tokens;
}

}  // namespace lt
