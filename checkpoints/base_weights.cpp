// Reads the weights beneath adapters from where they are.
#include "base_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "files.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "read_ranges.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr Size kSampledValues = 512;

nn::TransformerSpec without_adapters(nn::TransformerSpec model) {
  model.lora = {};
  return model;
}

std::vector<ParameterInfo> parameters_of(const nn::Model& model) {
  std::vector<ParameterInfo> all;
  for (const auto& [name, parameter] : model.all_parameters()) all.push_back({name, parameter->shape()});
  return all;
}

}  // namespace

std::string find_base(const std::string& path) {
  if (is_hf_folder(path)) return path;
  const std::vector<Listing> found = candidates(path, kAnyRun);
  if (const Listing* const newest = newest_valid(found)) return newest->path;
  throw DataError("checkpoint",
                  fmt::format("{}: expected the base of the adapters, a Hugging Face folder or a checkpoint, found "
                              "neither",
                              path),
                  "adapters change the weights of their base, which must stay where it was");
}

BaseWeights::BaseWeights(const std::string& folder, const nn::TransformerSpec& model, std::uint64_t seed)
    : folder_(folder.empty() ? "" : find_base(folder)),
      seed_(seed),
      model_(nn::make_transformer(without_adapters(model))) {
  if (folder_.empty()) return;
  const std::vector<ParameterInfo> parameters = parameters_of(*model_);
  if (is_hf_folder(folder_)) {
    hf_ = std::make_unique<HfFolder>(folder_);
    hf_->require_parameters(parameters);
  } else {
    require_parameters(folder_, parameters);
    manifest_ = within(folder_, [&] { return read_manifest(folder_); });
  }
}

void BaseWeights::read(const std::vector<StateRange>& ranges, Transfer& transfer) const {
  if (hf_ != nullptr) return hf_->read(ranges, transfer);
  if (manifest_) {
    std::vector<RangeRequest> requests;
    for (const auto& [parameter, kind, begin, end, values] : ranges) {
      if (begin < end) requests.push_back({parameter, kind, begin, end, values.data(), values.dtype()});
    }
    return within(folder_, [&] { read_ranges(folder_, *manifest_, requests, transfer); });
  }
  std::unordered_map<std::string, nn::Init> init;
  for (const auto& [name, parameter] : model_->all_parameters()) init.emplace(name, parameter->init());
  for (const StateRange& range : ranges) {
    nn::initial_values(range.values, range.parameter, init.at(range.parameter), seed_, range.begin);
  }
}

std::string BaseWeights::digest() const {
  std::uint64_t key = 0;
  Transfer on_host;
  for (const auto& [name, shape] : parameters_of(*model_)) {
    key = derive_key(key, fmt::format("{} {}", name, lt::to_string(shape)));
    const Size elements = shape.elements(), count = std::min(elements, kSampledValues);
    for (const Size begin : {Size{0}, elements - count}) {
      const Tensor values = Tensor::empty({count}, DType::f32);
      read({{name, kMaster, begin, begin + count, values}}, on_host);
      key = derive_key(key, {static_cast<const char*>(values.data()), static_cast<std::size_t>(values.bytes())});
    }
  }
  return fmt::format("{:016x}", key);
}

void BaseWeights::require_digest(const RunState& state) const {
  const std::string found = digest();
  if (found == state.base_digest) return;
  throw DataError("checkpoint",
                  fmt::format("{}: expected the base on which the adapters were trained{}, of digest {}, found other "
                              "weights, of digest {}",
                              folder_.empty() ? fmt::format("initial weights of seed {}", seed_) : folder_,
                              state.base.empty() ? "" : ", " + state.base, state.base_digest, found));
}

BaseWeights base_of(const RunState& state, const nn::TransformerSpec& model) {
  BaseWeights base(state.base, model, state.seed);
  base.require_digest(state);
  return base;
}

}  // namespace lt::checkpoint
