// Loads weights into models, and evaluates batches with them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "checkpoints/format/files.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/load.h"
#include "checkpoints/format/model_json.h"
#include "checkpoints/format/transfer.h"
#include "checkpoints/hugging_face/base_weights.h"
#include "checkpoints/hugging_face/hf_folder.h"
#include "comm/value_exchange.h"
#include "config/base_model.h"
#include "config/resolve.h"
#include "generate/loaded_model.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/config/config.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "libtrain/generate/generate.h"
#include "libtrain/memory/memory.h"
#include "libtrain/tensor/autograd.h"
#include "nn/lora.h"

namespace lt::generator {
namespace {

checkpoint::ModelDescription description_of(const std::string& step_directory, const checkpoint::RunState& state) {
  const auto description = checkpoint::within(step_directory, [&] { return checkpoint::model_from_json(state.model); });
  const auto saved = static_cast<Size>(checkpoint::read_parameters(step_directory).size());
  if (description.spec.layers > saved) {
    throw DataError("checkpoint", fmt::format("{}/manifest.json: model.layers: expected at most as many as parameters, "
                                              "{}, found {}",
                                              step_directory, saved, description.spec.layers));
  }
  return description;
}

Tensor on_device(const Tensor& values, Device device) {
  if (values.device() == device) return values;
  const Tensor there = Tensor::empty(values.shape(), values.dtype(), device);
  copy(there, values);
  return there;
}

// How a model's weights are loaded.
struct WeightsOptions {
  std::string weights;
  Device device;
  DType dtype;
  std::string base;
};

// Allocates a parameter, and returns the range to read.
StateRange allocate(const nn::NamedParameter& entry, const std::string& kind, const WeightsOptions& options) {
  const MemoryScope owner(MemoryOwner::parameters);
  const Tensor tensor = Tensor::empty(entry.parameter->shape(), options.dtype, options.device);
  entry.parameter->bind(tensor);
  return {entry.name, kind, 0, tensor.elements(), tensor.view({tensor.elements()})};
}

// Allocates the model's parameters and buffers, fills the base of its adapters, and returns the ranges to read from the
// checkpoint. `spec` describes a transformer; null: another model.
ShardMap allocate(nn::Model& model, const nn::TransformerSpec* spec, const std::string& step_directory,
                  const checkpoint::RunState& state, const WeightsOptions& options) {
  const bool has_base = spec != nullptr && nn::has_adapters(*spec);
  const auto is_saved = [&](const std::string& name) { return !has_base || nn::is_adapter(name); };
  ShardMap map;
  for (const nn::NamedParameter& entry : model.all_parameters()) {
    if (is_saved(entry.name)) map.parameters.push_back({entry.name, entry.parameter->shape()});
  }
  checkpoint::require_parameters(step_directory, map.parameters);  // before they are allocated
  const auto kinds = checkpoint::weight_kinds(step_directory, options.weights);
  std::optional<checkpoint::BaseWeights> base;
  if (spec != nullptr) base = checkpoint::base_of(state, step_directory, *spec, options.base);
  model.materialize_buffers(options.device, options.dtype);
  std::vector<StateRange> beneath;
  for (const nn::NamedParameter& entry : model.all_parameters()) {
    const bool saved = is_saved(entry.name);
    (saved ? map.needed : beneath).push_back(allocate(entry, saved ? kinds.at(entry.name) : kMaster, options));
  }
  if (base) {
    checkpoint::Transfer transfer(options.device);
    base->read(beneath, transfer);
    transfer.finish();
  }
  return map;
}

// Makes the model that the checkpoint describes, allocates its parameters and returns the ranges to read.
ShardMap make_model(LoadedModel& loaded, const std::string& step_directory, const LoadOptions& options) {
  const checkpoint::RunState state = checkpoint::read_state(step_directory);
  const checkpoint::ModelDescription description = description_of(step_directory, state);
  const Config config = config::config_of(state);
  loaded.seq = description.seq == 0 ? description.spec.max_seq : description.seq;
  loaded.separates_documents = config.data.documents == Documents::mask;
  loaded.read_raw16 = config.data.format == TokenFormat::raw16;
  loaded.model = nn::make_transformer(description.spec);
  const DType dtype =
      options.dtype ? *options.dtype : config::compute_dtype(config.train.dtype.value_or(Precision::f32));
  return allocate(*loaded.model, &description.spec, step_directory, state,
                  {options.weights, options.device, dtype, options.base});
}

const nn::TransformerSpec* spec_of(const nn::Model& model) {
  const auto* const transformer = dynamic_cast<const nn::Transformer*>(&model);
  return transformer == nullptr ? nullptr : &transformer->spec();
}

// The transformer that a checkpoint describes; nullopt if it describes none, as that of a row of a program's own.
std::optional<nn::TransformerSpec> saved_spec(const checkpoint::RunState& state) {
  try {
    return checkpoint::model_from_json(state.model).spec;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

void load_hf_weights(nn::Model& model, const std::string& path, const WeightsOptions& options) {
  const auto refuse = [&](const char* expected) {
    throw DataError("checkpoint",
                    fmt::format("{}: expected {}, found a folder in the Hugging Face format", path, expected));
  };
  const nn::TransformerSpec* const spec = spec_of(model);
  if (spec == nullptr) refuse("a checkpoint of a model that is no transformer");
  if (options.weights != kMaster) refuse("a checkpoint with an average of the weights");
  const checkpoint::HfFolder folder(path);
  config::require_same_spec(*spec, folder.spec(), path);
  std::vector<ParameterInfo> parameters;
  for (const nn::NamedParameter& entry : model.all_parameters()) {
    parameters.push_back({entry.name, entry.parameter->shape()});
  }
  folder.require_parameters(parameters);
  model.materialize_buffers(options.device, options.dtype);
  std::vector<StateRange> ranges;
  for (const nn::NamedParameter& entry : model.all_parameters()) ranges.push_back(allocate(entry, kMaster, options));
  checkpoint::Transfer transfer(options.device);
  folder.read(ranges, transfer);
  transfer.finish();
}

// Loads the newest valid checkpoint at `path`. ranges_of(candidate) makes the model ready for it and returns the ranges
// to read. Adds a line to `passed_over` for each checkpoint that cannot be read. Throws DataError if none can.
template <class RangesOf>
checkpoint::Loaded load_newest(const std::string& path, std::vector<std::string>& passed_over, RangesOf ranges_of) {
  for (const checkpoint::Listing& candidate : checkpoint::candidates(path, checkpoint::kAnyRun)) {
    ShardMap map;
    if (candidate.valid) map = ranges_of(candidate.path);
    checkpoint::Loaded found = checkpoint::load_newest({candidate}, map, Group(), &passed_over);
    if (!found.folder.empty()) return found;
  }
  throw checkpoint::no_valid_checkpoint(path, passed_over);
}

}  // namespace

BatchLoss loss_of(nn::Transformer& model, const Batch& batch) {
  const TapeScope no_recording(nullptr);
  const Device device = model.all_parameters().front().parameter->tensor().device();
  const std::int32_t* const targets = batch.targets.data<std::int32_t>();
  const Size ignored = std::count(targets, targets + batch.targets.elements(), kIgnoredTarget);
  const Tensor loss =
      model.loss(batch.map([&](const Tensor& all) { return all.defined() ? on_device(all, device) : all; }));
  return {loss.item(), static_cast<double>(batch.targets.elements() - ignored)};
}

std::vector<BatchLoss> gather_losses(const BatchLoss& own, const Group& group) {
  return comm::gather_values(group, own);
}

}  // namespace lt::generator

namespace lt {

LoadedModel load_model(const std::string& directory, const LoadOptions& options) {
  require_device(options.device);
  LoadedModel loaded;
  // Each checkpoint describes its own model.
  const checkpoint::Loaded found = generator::load_newest(directory, loaded.passed_over, [&](const std::string& step) {
    return generator::make_model(loaded, step, options);
  });
  const std::string where = found.folder + "/manifest.json: tokenizer";
  loaded.tokenizer_text = found.state.tokenizer;
  loaded.tokenizer_name = (loaded.tokenizer_text.empty() ? "none in " : "") + found.folder + "/manifest.json";
  if (!loaded.tokenizer_text.empty()) loaded.tokenizer = supported_tokenizer(loaded.tokenizer_text, where);
  if (loaded.tokenizer == nullptr)
    loaded.tokenizer_problem = unsupported_reason(loaded.tokenizer_text, found.state.tokenizer_files, where);
  loaded.tokenizer_hint = loaded.tokenizer_problem.empty()
                              ? "--tokenizer byte, or the tokenizer.json that `ltrain prepare` wrote beside the data"
                              : "--tokenizer FILE.json: the same tokenizer in a form that docs/how-to/data.md lists";
  loaded.step = found.state.step;
  loaded.directory = found.folder;
  return loaded;
}

std::string load_weights(nn::Model& model, const std::string& path, Device device, DType dtype,
                         const std::string& weights) {
  require_device(device);
  if (!is_state_dtype(dtype)) {
    throw UsageError("generate", "dtype", "f32, bf16 or f16", std::string(dtype_name(dtype)));
  }
  const generator::WeightsOptions options{weights, device, dtype, ""};
  if (checkpoint::is_hf_folder(path)) {
    generator::load_hf_weights(model, path, options);
    return path;
  }
  const nn::TransformerSpec* const spec = generator::spec_of(model);
  std::vector<std::string> notes;
  const checkpoint::Loaded found = generator::load_newest(path, notes, [&](const std::string& step) {
    const checkpoint::RunState state = checkpoint::read_state(step);
    const auto saved = generator::saved_spec(state);
    if (spec != nullptr && saved) config::require_same_spec(*spec, *saved, step);
    return generator::allocate(model, spec, step, state, options);
  });
  for (const std::string& note : notes) std::fprintf(stderr, "warning: [checkpoint] passed over: %s\n", note.c_str());
  return found.folder;
}

}  // namespace lt
