// Loading: the intervals that are needed are intersected with those that the files hold, so a checkpoint of any rank
// count and strategy serves any other. A manifest covers each element once, so a request is filled whole or refused.
#include <fmt/format.h>

#include <unordered_map>

#include "files.h"
#include "libtrain/checkpoint.h"
#include "libtrain/progress.h"
#include "manifest.h"
#include "read_ranges.h"
#include "shard_reader.h"

namespace lt::checkpoint {
namespace {

// Ranges of all parameters and kinds, by name.
using RequestIndex = std::unordered_map<std::string, std::vector<const RangeRequest*>>;

std::string key_of(StateKind kind, const std::string& parameter) {
  return std::to_string(static_cast<int>(kind)) + parameter;
}

void check_shapes(const Manifest& manifest, const std::vector<ParameterInfo>& model) {
  std::unordered_map<std::string, Shape> saved;
  for (const auto& [name, shape] : manifest.parameters) saved.emplace(name, shape);
  const auto fail = [](const std::string& name, const std::string& expected, const std::string& found) {
    throw DataError(
        "checkpoint", fmt::format("manifest.json: parameter {}: expected {}, found {}", name, expected, found),
        "the checkpoint is of another model; model.* of its configuration is in `ltrain checkpoint inspect`");
  };
  for (const auto& [name, shape] : model) {
    const auto found = saved.find(name);
    if (found == saved.end()) fail(name, "shape " + lt::to_string(shape), "no such parameter");
    if (!(found->second == shape)) fail(name, "shape " + lt::to_string(shape), lt::to_string(found->second));
    saved.erase(found);
  }
  for (const auto& [name, shape] : manifest.parameters) {
    if (saved.contains(name)) fail(name, "no such parameter in the model", "shape " + lt::to_string(shape));
  }
}

// Values of a range on the host: the tensor's own memory, or `staged` to be copied to it.
struct Destination {
  Tensor tensor;
  std::vector<float> staged;

  float* host() {
    if (tensor.device() == kCpu && tensor.is_contiguous()) return tensor.data<float>();
    staged.resize(static_cast<std::size_t>(tensor.elements()));
    return staged.data();
  }
  void finish() const {
    if (!staged.empty()) copy(tensor, Tensor::from(staged, tensor.shape(), tensor.device()));
  }
};

}  // namespace

void read_ranges(const std::filesystem::path& folder, const Manifest& manifest,
                 const std::vector<RangeRequest>& requests) {
  std::unordered_map<std::string, Size> elements;
  for (const auto& [name, shape] : manifest.parameters) elements.emplace(name, shape.elements());
  RequestIndex index;
  Size missing = 0;
  for (const RangeRequest& request : requests) {
    const auto found = elements.find(request.parameter);
    const Size size = found == elements.end() ? -1 : found->second;
    if (request.begin < 0 || request.end < request.begin || request.end > size) {
      throw DataError("checkpoint", fmt::format("manifest.json: expected {}, found {}",
                                                to_string(request.kind, request.parameter, request.begin, request.end),
                                                size < 0 ? "no such parameter" : fmt::format("{} elements", size)));
    }
    missing += request.end - request.begin;
    index[key_of(request.kind, request.parameter)].push_back(&request);
  }
  for (const FileEntry& file : manifest.files) {
    std::optional<ShardReader> reader;  // opened where the file has something
    for (const DatasetEntry& dataset : file.datasets) {
      const auto wanted = index.find(key_of(dataset.kind, dataset.parameter));
      if (wanted == index.end()) continue;
      for (const RangeRequest* request : wanted->second) {
        const Size begin = std::max(request->begin, dataset.begin), end = std::min(request->end, dataset.end);
        if (begin >= end) continue;
        if (!reader) reader.emplace(folder, file);
        reader->read(dataset, begin, end, request->out + (begin - request->begin));
        missing -= end - begin;
      }
    }
  }
  if (missing == 0) return;
  // The manifest has all of a kind or nothing of it.
  for (const auto& [key, wanted] : index) {
    const auto& [parameter, kind, begin, end, out] = *wanted.front();
    bool there = begin == end;
    for (const FileEntry& file : manifest.files) {
      for (const DatasetEntry& dataset : file.datasets) there = there || dataset.kind == kind;
    }
    if (!there) {
      throw DataError("checkpoint", fmt::format("manifest.json: expected {}, found no {} of any parameter",
                                                to_string(kind, parameter, begin, end),
                                                kStateKindNames[static_cast<std::size_t>(kind)]));
    }
  }
  throw InternalError("checkpoint", fmt::format("{} elements were found in no file", missing));
}

void require_parameters(const std::string& step_directory, const std::vector<ParameterInfo>& model) {
  within(step_directory, [&] { check_shapes(read_manifest(step_directory), model); });
}

void load(const std::string& step_directory, const ShardMap& shards) {
  const PhaseScope phase(Phase::load);
  within(step_directory, [&] {
    const Manifest manifest = read_manifest(step_directory);
    check_shapes(manifest, shards.parameters);
    std::vector<Destination> destinations;
    std::vector<RangeRequest> requests;
    destinations.reserve(shards.needed.size());
    for (const StateRange& range : shards.needed) {
      if (range.begin == range.end) continue;
      if (range.values.elements() != range.end - range.begin || range.values.dtype() != DType::f32) {
        throw InternalError("checkpoint", fmt::format("{}: expected as many f32 values, found {} {}",
                                                      to_string(range.kind, range.parameter, range.begin, range.end),
                                                      range.values.elements(), dtype_name(range.values.dtype())));
      }
      Destination& destination = destinations.emplace_back(Destination{range.values, {}});
      requests.push_back({range.parameter, range.kind, range.begin, range.end, destination.host()});
    }
    read_ranges(step_directory, manifest, requests);
    for (const Destination& destination : destinations) destination.finish();
  });
}

std::vector<float> read_tensor(const std::string& step_directory, const std::string& parameter, StateKind kind) {
  return within(step_directory, [&] {
    const Manifest manifest = read_manifest(step_directory);
    for (const auto& [name, shape] : manifest.parameters) {
      if (name != parameter) continue;
      for (const FileEntry& file : manifest.files) ShardReader(step_directory, file);  // before memory is taken
      std::vector<float> values(static_cast<std::size_t>(shape.elements()));
      read_ranges(step_directory, manifest, {{name, kind, 0, shape.elements(), values.data()}});
      return values;
    }
    throw DataError("checkpoint",
                    fmt::format("manifest.json: expected parameter {}, found none of that name", parameter));
  });
}

RunState read_state(const std::string& step_directory) {
  return within(step_directory, [&] { return read_manifest(step_directory).state; });
}

std::vector<ParameterInfo> read_parameters(const std::string& step_directory) {
  return within(step_directory, [&] { return read_manifest(step_directory).parameters; });
}

int read_world_size(const std::string& step_directory) {
  return within(step_directory, [&] { return read_manifest(step_directory).world_size; });
}

}  // namespace lt::checkpoint
