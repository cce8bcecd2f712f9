// Finds the base and reads its weights.
#include "checkpoints/hugging_face/base_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "checkpoints/format/files.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/found_instead.h"
#include "checkpoints/format/read_ranges.h"
#include "io/paths.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "nn/lora.h"

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

std::optional<std::string> base_at(const std::string& path) {
  if (path.empty()) return std::nullopt;
  if (is_hf_folder(path)) return path;
  const std::vector<Listing> found = candidates(path, kAnyRun);
  const Listing* const newest = newest_valid(found);
  return newest == nullptr ? std::nullopt : std::optional(newest->path);
}

std::string find_base(const std::string& path) {
  if (const auto found = base_at(path)) return *found;
  const FoundInstead other = found_instead(path);
  throw DataError("checkpoint",
                  fmt::format("{}: expected the base of the adapters, a Hugging Face folder or a checkpoint, found {}",
                              path, other.found.empty() ? "neither" : other.found),
                  "--model.from=FOLDER says where the base is now");
}

std::string find_base(const RunState& state, const fs::path& step, const std::string& given) {
  if (!given.empty() && (state.base.empty() || !io::is_within(state.base, given))) return find_base(given);
  if (state.base.empty()) return "";
  std::vector<std::string> places;
  if (!state.base_beside.empty()) {
    std::error_code unknown;
    for (const fs::path& folder :
         {fs::absolute(step / "").lexically_normal().parent_path(), fs::canonical(step, unknown)}) {
      places.push_back((folder.parent_path() / state.base_beside).lexically_normal());
    }
  }
  places.push_back(state.base);
  places.push_back(given);
  for (const std::string& place : places) {
    try {
      if (const auto found = base_at(place)) return *found;
    } catch (const DataError&) {  // a link to nothing: the base may be at the next place
    }
  }
  return find_base(state.base);  // throws
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

std::optional<BaseWeights> base_of(const RunState& state, const fs::path& step, const nn::TransformerSpec& model,
                                   const std::string& given) {
  if (nn::has_adapters(model)) {
    std::optional<BaseWeights> base(std::in_place, find_base(state, step, given), model, state.seed);
    base->require_digest(state);
    return base;
  }
  if (given.empty()) return std::nullopt;
  throw DataError("checkpoint",
                  fmt::format("{}/manifest.json: model.lora: expected adapters of the given base {}, found "
                              "none",
                              step.string(), given),
                  "the checkpoint is a whole model: leave --model.from out");
}

}  // namespace lt::checkpoint
