// Loads checkpoints. The requested intervals are intersected with the files' intervals, so a checkpoint written by any
// rank count and strategy can be loaded by any other. A manifest has all elements of a parameter's kind or none, so a
// request is filled completely or refused before anything is read.
#include "checkpoints/format/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "checkpoints/format/files.h"
#include "checkpoints/format/known_folders.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/load_shares.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/read_ranges.h"
#include "checkpoints/format/shard_reader.h"
#include "device/fault.h"
#include "libtrain/device/phase.h"

namespace lt::checkpoint {
namespace {

// Requests by kind and parameter, see key_of().
using RequestIndex = std::unordered_map<std::string, std::vector<const RangeRequest*>>;

std::string key_of(const std::string& kind, const std::string& parameter) { return kind + "/" + parameter; }

}  // namespace

void require_parameters(const Manifest& manifest, const std::vector<ParameterInfo>& model) {
  std::unordered_map<std::string, Shape> saved;
  for (const auto& [name, shape] : manifest.parameters) saved.emplace(name, shape);
  const auto fail = [](const std::string& name, const std::string& expected, const std::string& found) {
    throw DataError("checkpoint",
                    fmt::format("manifest.json: parameter {}: expected {}, found {}", name, expected, found),
                    "the checkpoint is of another model; model.* of its configuration is in `checkpoint inspect`");
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

namespace {

// Keys of the partial kinds in the manifest. A consistent manifest has all of every parameter's kind, but may have
// nothing of a partial kind for a parameter.
std::unordered_set<std::string> partial_states(const Manifest& manifest) {
  std::unordered_set<std::string> states;
  const auto is_partial = [](const StateKind& kind) { return kind.partial; };
  if (std::none_of(manifest.kinds.begin(), manifest.kinds.end(), is_partial)) return states;
  for (const FileEntry& file : manifest.files) {
    for (const DatasetEntry& dataset : file.datasets) {
      if (find_kind(manifest.kinds, dataset.kind)->partial) states.insert(key_of(dataset.kind, dataset.parameter));
    }
  }
  return states;
}

void check_kinds(const Manifest& manifest, const std::vector<RangeRequest>& requests) {
  const std::unordered_set<std::string> partial = partial_states(manifest);
  for (const auto& [parameter, name, begin, end, out, dtype] : requests) {
    const StateKind* const kind = find_kind(manifest.kinds, name);
    const bool is_there = kind != nullptr && (!kind->partial || partial.contains(key_of(name, parameter)));
    if (begin == end || is_there) continue;
    throw DataError("checkpoint",
                    fmt::format("manifest.json: expected {}, found no {} of {}", to_string(name, parameter, begin, end),
                                name, kind == nullptr ? "any parameter" : "it"),
                    std::ranges::none_of(manifest.kinds, [](const StateKind& k) { return k.name != kMaster; })
                        ? "the checkpoint has weights alone, as after an import: model.from begins from them"
                        : "the checkpoint is of another optimizer, of other groups or of other frozen parameters");
  }
}

std::vector<RangeRequest> requests_of(const ShardMap& shards) {
  std::vector<RangeRequest> requests;
  for (const StateRange& range : shards.needed) {
    if (range.begin == range.end) continue;
    const Tensor& values = range.values;
    if (values.elements() != range.end - range.begin || !is_state_dtype(values.dtype()) || !values.is_contiguous()) {
      throw InternalError("checkpoint", fmt::format("{}: expected as many contiguous values, found {} {}",
                                                    to_string(range.kind, range.parameter, range.begin, range.end),
                                                    values.elements(), dtype_name(values.dtype())));
    }
    requests.push_back({range.parameter, range.kind, range.begin, range.end, values.data(), values.dtype()});
  }
  return requests;
}

RequestIndex index_of(const Manifest& manifest, const std::vector<RangeRequest>& requests) {
  check_kinds(manifest, requests);
  std::unordered_map<std::string, Size> elements;
  for (const auto& [name, shape] : manifest.parameters) elements.emplace(name, shape.elements());
  RequestIndex index;
  for (const RangeRequest& request : requests) {
    const auto found = elements.find(request.parameter);
    const Size size = found == elements.end() ? -1 : found->second;
    if (request.begin < 0 || request.end < request.begin || request.end > size) {
      throw DataError("checkpoint", fmt::format("manifest.json: expected {}, found {}",
                                                to_string(request.kind, request.parameter, request.begin, request.end),
                                                size < 0 ? "no such parameter" : fmt::format("{} elements", size)));
    }
    index[key_of(request.kind, request.parameter)].push_back(&request);
  }
  return index;
}

// Calls visit(file, dataset, request, begin, end, piece) for each interval [begin, end) of a request that a dataset
// holds, in file order. `piece` is the index of the dataset's first block, as verify_share() counts pieces.
template <class Visit>
void for_each_overlap(const Manifest& manifest, const RequestIndex& index, Visit&& visit) {
  Size piece = 0;
  for (const FileEntry& file : manifest.files) {
    ++piece;  // the file's metadata
    for (const DatasetEntry& dataset : file.datasets) {
      const auto wanted = index.find(key_of(dataset.kind, dataset.parameter));
      if (wanted != index.end()) {
        for (const RangeRequest* request : wanted->second) {
          const Size begin = std::max(request->begin, dataset.begin), end = std::min(request->end, dataset.end);
          if (begin < end) visit(file, dataset, *request, begin, end, piece);
        }
      }
      piece += static_cast<Size>(dataset.blocks.size());
    }
  }
}

// A bit for each piece, eight in a byte: 1 if this rank's requests touch it.
std::string pieces_read(const Manifest& manifest, const std::vector<RangeRequest>& requests) {
  std::string read(static_cast<std::size_t>((piece_count(manifest) + 7) / 8), '\0');
  for_each_overlap(
      manifest, index_of(manifest, requests),
      [&](const FileEntry&, const DatasetEntry& dataset, const RangeRequest&, Size begin, Size end, Size piece) {
        const Size elements = block_elements(dataset.dtype);
        const Size first = (begin - dataset.begin) / elements, last = (end - 1 - dataset.begin) / elements;
        for (Size block = first; block <= last; ++block) {
          const auto at = static_cast<std::size_t>(piece + block);
          read[at / 8] = static_cast<char>(read[at / 8] | (1 << at % 8));
        }
      });
  return read;
}

// Whether any rank reads each piece. `pieces`: those that this rank reads.
std::vector<bool> read_by_any(const std::string& pieces, const Group& group) {
  std::vector<bool> read(8 * pieces.size());
  for (const std::string& of_rank : group.all_gather_bytes(pieces)) {
    for (std::size_t i = 0; i < read.size(); ++i) read[i] = read[i] || (of_rank[i / 8] >> i % 8 & 1) != 0;
  }
  return read;
}

}  // namespace

void read_ranges(const std::filesystem::path& folder, const Manifest& manifest,
                 const std::vector<RangeRequest>& requests, Transfer& transfer) {
  Size missing = 0;
  for (const RangeRequest& request : requests) missing += request.end - request.begin;
  const FileEntry* open = nullptr;
  std::optional<ShardReader> reader;
  for_each_overlap(
      manifest, index_of(manifest, requests),
      [&](const FileEntry& file, const DatasetEntry& dataset, const RangeRequest& request, Size begin, Size end, Size) {
        if (open != &file) open = &file, reader.emplace(folder, file);
        auto* const out = static_cast<std::byte*>(request.out) + (begin - request.begin) * dtype_bytes(request.dtype);
        reader->read(dataset, begin, end, out, request.dtype, transfer);
        missing -= end - begin;
      });
  transfer.finish();
  if (missing != 0) {
    throw DataError("checkpoint", fmt::format("manifest.json: expected all optimizer states, {} elements are "
                                              "in no file",
                                              missing));
  }
}

void require_parameters(const std::string& step_directory, const std::vector<ParameterInfo>& model) {
  within(step_directory, [&] { require_parameters(read_manifest(step_directory), model); });
}

std::unordered_map<std::string, std::string> weight_kinds(const std::string& step_directory,
                                                          const std::string& weights) {
  return within(step_directory, [&] { return weight_kinds(read_manifest(step_directory), weights); });
}

namespace {

// Throws DataError if the checkpoint is of another model or optimizer.
void check_fits(const Manifest& manifest, const ShardMap& shards) {
  require_parameters(manifest, shards.parameters);
  check_kinds(manifest, requests_of(shards));
}

// Loads the values. check_fits() must have passed on all ranks.
void load_values(const std::string& step_directory, const Manifest& manifest, const ShardMap& shards,
                 const Group& group) {
  std::vector<RangeRequest> requests;
  std::string pieces;
  collectively(group, [&] {
    within(step_directory, [&] {
      requests = requests_of(shards);
      pieces = pieces_read(manifest, requests);
    });
  });
  const std::vector<bool> read = read_by_any(pieces, group);
  try {
    collectively(group, [&] {
      within(step_directory, [&] {
        device::set_fault_step(manifest.state.step);
        device::fault_point("load");
        Transfer transfer(device_of(shards.needed));
        read_ranges(step_directory, manifest, requests, transfer);
        verify_share(step_directory, manifest, read, group.rank(), group.size());
      });
    });
  } catch (const DataError&) {
    if (group.rank() == 0) remember_whole(step_directory, false);
    throw;
  }
  if (group.rank() == 0) remember_whole(step_directory, true);  // only rank 0 removes checkpoints, and so needs to know
}

}  // namespace

RunState load(const std::string& step_directory, const ShardMap& shards, const Group& group) {
  const PhaseScope phase(Phase::load);
  Manifest manifest;
  collectively(group, [&] {
    within(step_directory, [&] {
      manifest = read_manifest(step_directory);
      check_fits(manifest, shards);
    });
  });
  load_values(step_directory, manifest, shards, group);
  return manifest.state;
}

Loaded load_newest(const std::vector<Listing>& candidates, const ShardMap& shards, const Group& group,
                   std::vector<std::string>* notes) {
  const PhaseScope phase(Phase::load);
  Loaded loaded;
  const auto note = [&](const std::string& folder, const std::string& reason) {
    if (notes != nullptr) notes->push_back(std::filesystem::path(folder).filename().string() + ": " + reason);
  };
  for (std::size_t next = 0;; ++next) {
    std::string folder;
    if (group.rank() == 0) {
      for (; next < candidates.size() && !candidates[next].valid; ++next) {
        note(candidates[next].path, candidates[next].reason);
      }
      if (next < candidates.size()) folder = candidates[next].path;
    }
    folder = group.broadcast_bytes(folder, 0);
    if (folder.empty()) return loaded;
    const auto pass_over = [&](const DataError& e) {
      const std::string reason = e.what(), prefix = folder + "/";
      if (group.rank() == 0) note(folder, reason.starts_with(prefix) ? reason.substr(prefix.size()) : reason);
    };
    Manifest manifest;
    try {
      collectively(group, [&] { within(folder, [&] { manifest = read_manifest(folder); }); });
    } catch (const DataError& e) {
      pass_over(e);
      continue;
    }
    // A checkpoint of another model or optimizer is not damaged, so no older one is tried.
    collectively(group, [&] { within(folder, [&] { check_fits(manifest, shards); }); });
    loaded.tried = true;
    try {
      load_values(folder, manifest, shards, group);
      loaded.state = manifest.state;
      loaded.folder = folder;
      return loaded;
    } catch (const DataError& e) {
      pass_over(e);
    }
  }
}

std::vector<float> read_tensor(const std::string& step_directory, const std::string& parameter,
                               const std::string& kind) {
  return within(step_directory, [&] {
    const Manifest manifest = read_manifest(step_directory);
    for (const auto& [name, shape] : manifest.parameters) {
      if (name != parameter) continue;
      for (const FileEntry& file : manifest.files) ShardReader(step_directory, file);  // checks each file first
      std::vector<float> values(static_cast<std::size_t>(shape.elements()));
      Transfer on_host;
      read_ranges(step_directory, manifest, {{name, kind, 0, shape.elements(), values.data()}}, on_host);
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
