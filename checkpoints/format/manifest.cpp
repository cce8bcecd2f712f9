// Checks the manifest's own checksum and its consistency.
#include "checkpoints/format/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "checkpoints/format/files.h"
#include "checkpoints/format/layout.h"
#include "io/crc32c.h"

namespace lt::checkpoint {
namespace {

constexpr std::string_view kChecksumBegin = " \"crc32c\": \"";
constexpr std::string_view kChecksumEnd = "\"\n}\n";

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw DataError("checkpoint", "manifest.json: " + fmt::format(text, std::forward<Args>(args)...));
}

void check_dataset(const FileEntry& file, const DatasetEntry& dataset, Size elements) {
  if (dataset.begin < 0 || dataset.end <= dataset.begin || dataset.end > elements) {
    fail("{}: {}: expected a range of [0, {}), found [{}, {})", file.name, to_string(dataset), elements, dataset.begin,
         dataset.end);
  }
  if (dataset.offset < 0 || dataset.offset > file.bytes || dataset.bytes() > file.bytes - dataset.offset) {
    fail("{}: {}: expected to lie within the file's {} bytes, found offset {} and {} bytes", file.name,
         to_string(dataset), file.bytes, dataset.offset, dataset.bytes());
  }
  const Size blocks = (dataset.bytes() + kBlockBytes - 1) / kBlockBytes;
  if (static_cast<Size>(dataset.blocks.size()) != blocks) {
    fail("{}: {}: expected {} block checksums, found {}", file.name, to_string(dataset), blocks, dataset.blocks.size());
  }
}

}  // namespace

std::string to_string(const DatasetEntry& dataset) { return dataset.kind + "/" + dataset.parameter; }

std::string to_string(const std::string& kind, const std::string& parameter, Size begin, Size end) {
  return fmt::format("{}/{}[{}, {})", kind, parameter, begin, end);
}

const StateKind* find_kind(const std::vector<StateKind>& kinds, const std::string& name) {
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const StateKind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

void set_dtypes(std::vector<FileEntry>& files, const std::vector<StateKind>& kinds) {
  for (FileEntry& file : files) {
    for (DatasetEntry& dataset : file.datasets) {
      if (const StateKind* kind = find_kind(kinds, dataset.kind)) dataset.dtype = kind->dtype;
    }
  }
}

std::vector<StateKind> kinds_that_occur(const std::vector<StateKind>& candidates, const std::vector<FileEntry>& files) {
  std::vector<StateKind> kinds;
  for (const StateKind& kind : candidates) {
    const auto is_of_it = [&](const DatasetEntry& dataset) { return dataset.kind == kind.name; };
    const bool occurs = kind.name == kMaster || std::any_of(files.begin(), files.end(), [&](const FileEntry& file) {
                          return std::any_of(file.datasets.begin(), file.datasets.end(), is_of_it);
                        });
    if (occurs) kinds.push_back(kind);
  }
  return kinds;
}

std::unordered_map<std::string, std::string> weight_kinds(const Manifest& manifest, const std::string& weights) {
  if (find_kind(manifest.kinds, weights) == nullptr) {
    throw DataError("checkpoint", fmt::format("manifest.json: states: expected {}, found none", weights),
                    "a run keeps it with optim.ema");
  }
  if (weights == kAverage && manifest.state.step <= manifest.state.skipped) {
    fail("step: expected one with an update before it, for {}, found {}", weights, manifest.state.step);
  }
  std::unordered_set<std::string> have_own, are_trained;
  for (const FileEntry& file : manifest.files) {
    for (const DatasetEntry& dataset : file.datasets) {
      if (dataset.kind == weights) have_own.insert(dataset.parameter);
      if (dataset.kind != kMaster) are_trained.insert(dataset.parameter);
    }
  }
  std::unordered_map<std::string, std::string> kinds;
  for (const auto& [name, shape] : manifest.parameters) {
    const bool has_own = have_own.contains(name) || shape.elements() == 0;
    if (!has_own && are_trained.contains(name)) {
      fail("expected {} of {}, which is trained, found none", weights, name);
    }
    kinds.emplace(name, has_own ? weights : kMaster);
  }
  return kinds;
}

void check_consistent(const Manifest& manifest) {
  if (manifest.world_size < 1 || static_cast<std::size_t>(manifest.world_size) != manifest.files.size()) {
    fail("world_size: expected the number of files, {}, found {}", manifest.files.size(), manifest.world_size);
  }
  std::unordered_map<std::string, std::size_t> index;
  for (const ParameterInfo& parameter : manifest.parameters) {
    if (!index.emplace(parameter.name, index.size()).second) fail("parameters: {} occurs twice", parameter.name);
  }
  std::unordered_map<std::string, std::size_t> kinds;
  for (const StateKind& kind : manifest.kinds) kinds.emplace(kind.name, kinds.size());
  std::vector<std::tuple<std::size_t, std::size_t, Size, Size>> ranges;
  for (std::size_t rank = 0; rank < manifest.files.size(); ++rank) {
    const FileEntry& file = manifest.files[rank];
    const std::string expected = shard_name(static_cast<int>(rank));
    if (file.name != expected) fail("files: expected {}, found {}", expected, file.name);
    for (const DatasetEntry& dataset : file.datasets) {
      const auto found = index.find(dataset.parameter);
      if (found == index.end()) fail("{}: {} is not in the list of parameters", file.name, to_string(dataset));
      check_dataset(file, dataset, manifest.parameters[found->second].shape.elements());
      const auto kind = kinds.find(dataset.kind);
      if (kind == kinds.end())
        fail("{}: {} has a kind that is missing in the list of states", file.name, to_string(dataset));
      ranges.emplace_back(kind->second, found->second, dataset.begin, dataset.end);
    }
  }
  // Each kind covers each parameter once, in order and without gaps. A partial kind may leave out whole parameters.
  std::sort(ranges.begin(), ranges.end());
  auto next = ranges.begin();
  for (std::size_t k = 0; k < manifest.kinds.size(); ++k) {
    const std::string& kind = manifest.kinds[k].name;
    for (std::size_t p = 0; p < manifest.parameters.size(); ++p) {
      const auto& [name, shape] = manifest.parameters[p];
      Size covered = 0;
      for (; next != ranges.end() && std::get<0>(*next) == k && std::get<1>(*next) == p; ++next) {
        const auto [begin, end] = std::pair(std::get<2>(*next), std::get<3>(*next));
        if (begin > covered) fail("{} is in no file", to_string(kind, name, covered, begin));
        if (begin < covered) fail("{} is in two files", to_string(kind, name, begin, std::min(covered, end)));
        covered = end;
      }
      const bool has_none = covered == 0 && manifest.kinds[k].partial;
      if (covered != shape.elements() && !has_none)
        fail("{} is in no file", to_string(kind, name, covered, shape.elements()));
    }
  }
}

std::string manifest_text(const Manifest& manifest) {
  std::string text = detail::open_object_text(manifest);
  text += ",\n";
  if (static_cast<Size>(text.size()) > kMaxManifestBytes - 64) {
    fail("expected at most {} bytes, found {}", kMaxManifestBytes, text.size());
  }
  const std::string checksum = io::crc_text(io::crc32c(0, text.data(), text.size()));
  return text.append(kChecksumBegin).append(checksum).append(kChecksumEnd);
}

Manifest parse_manifest(const std::string& text) {
  constexpr std::size_t kTail = kChecksumBegin.size() + 8 + kChecksumEnd.size();
  if (text.empty()) fail("is empty");
  if (text.size() <= kTail) fail("expected a manifest, found {} bytes", text.size());
  const std::size_t body = text.size() - kTail;
  const std::string_view tail = std::string_view(text).substr(body);
  if (!tail.starts_with(kChecksumBegin) || !tail.ends_with(kChecksumEnd)) {
    fail("crc32c: expected as the last field, found none: the file is truncated or not a manifest");
  }
  const std::string expected(tail.substr(kChecksumBegin.size(), 8));
  const std::string found = io::crc_text(io::crc32c(0, text.data(), body));
  if (found != expected) fail("crc32c: expected {}, found {}", expected, found);
  Manifest manifest = detail::parse_object(text);
  check_consistent(manifest);
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& folder) {
  Manifest manifest = parse_manifest(read_text(folder / kManifestName, kMaxManifestBytes));
  const auto step = parse_step(folder.filename().string());
  if (step && *step != manifest.state.step) fail("step: expected {}, found {}", *step, manifest.state.step);
  return manifest;
}

}  // namespace lt::checkpoint
