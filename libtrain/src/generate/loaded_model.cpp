// Loads a checkpoint's weights into a model, and evaluates batches with it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "checkpoints/format/files.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/load.h"
#include "checkpoints/format/model_json.h"
#include "checkpoints/format/transfer.h"
#include "checkpoints/hugging_face/base_weights.h"
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

// Makes the model that the checkpoint describes, allocates its parameters and returns the ranges to read.
ShardMap make_model(LoadedModel& loaded, const std::string& step_directory, const LoadOptions& options) {
  const checkpoint::RunState state = checkpoint::read_state(step_directory);
  const checkpoint::ModelDescription description = description_of(step_directory, state);
  const Config config = config::config_of(state);
  loaded.seq = description.seq == 0 ? description.spec.max_seq : description.seq;
  loaded.separates_documents = config.data.documents == Documents::mask;
  loaded.read_raw16 = config.data.format == TokenFormat::raw16;
  loaded.model = nn::make_transformer(description.spec);
  const bool has_base = nn::has_adapters(description.spec);
  const auto is_saved = [&](const std::string& name) { return !has_base || nn::is_adapter(name); };
  ShardMap map;
  for (const nn::NamedParameter& entry : loaded.model->all_parameters()) {
    if (is_saved(entry.name)) map.parameters.push_back({entry.name, entry.parameter->shape()});
  }
  checkpoint::require_parameters(step_directory, map.parameters);  // before they are allocated
  const auto kinds = checkpoint::weight_kinds(step_directory, options.weights);
  const std::optional<checkpoint::BaseWeights> base =
      checkpoint::base_of(state, step_directory, description.spec, options.base);
  const DType dtype = options.dtype ? *options.dtype : config::compute_dtype(config.train.dtype);
  loaded.model->materialize_buffers(options.device, dtype);
  const MemoryScope owner(MemoryOwner::parameters);
  std::vector<StateRange> beneath;
  for (const nn::NamedParameter& entry : loaded.model->all_parameters()) {
    const Tensor tensor = Tensor::empty(entry.parameter->shape(), dtype, options.device);
    entry.parameter->bind(tensor);
    const bool saved = is_saved(entry.name);
    (saved ? map.needed : beneath)
        .push_back({entry.name, saved ? kinds.at(entry.name) : kMaster, 0, tensor.elements(),
                    tensor.view({tensor.elements()})});
  }
  if (base) {
    checkpoint::Transfer transfer(options.device);
    base->read(beneath, transfer);
    transfer.finish();
  }
  return map;
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
  checkpoint::Loaded found;
  // Each candidate describes its own model.
  for (const checkpoint::Listing& candidate : checkpoint::candidates(directory, checkpoint::kAnyRun)) {
    ShardMap map;
    if (candidate.valid) map = generator::make_model(loaded, candidate.path, options);
    found = checkpoint::load_newest({candidate}, map, Group(), &loaded.passed_over);
    if (!found.folder.empty()) break;
  }
  if (found.folder.empty()) throw checkpoint::no_valid_checkpoint(directory, loaded.passed_over);
  const std::string where = found.folder + "/manifest.json: tokenizer";
  loaded.tokenizer_text = found.state.tokenizer;
  loaded.tokenizer_name = (loaded.tokenizer_text.empty() ? "none in " : "") + found.folder + "/manifest.json";
  if (!loaded.tokenizer_text.empty()) loaded.tokenizer = supported_tokenizer(loaded.tokenizer_text, where);
  if (loaded.tokenizer == nullptr)
    loaded.tokenizer_problem = unsupported_reason(loaded.tokenizer_text, found.state.tokenizer_files, where);
  loaded.tokenizer_hint = loaded.tokenizer_problem.empty()
                              ? "--tokenizer byte, or the tokenizer.json that `ltrain prepare` wrote beside the data"
                              : "--tokenizer FILE.json: the same tokenizer in a form that docs/data.md lists";
  loaded.step = found.state.step;
  loaded.directory = found.folder;
  return loaded;
}

}  // namespace lt
