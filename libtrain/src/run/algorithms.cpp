// Broadcasts rank 0's table, and compares what computes on the ranks and before a resume.
#include "run/algorithms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "device/cuda.h"
#include "io/whole_file.h"
#include "kernels/matmul_algorithms.h"
#include "libtrain/error.h"
#include "run/machine.h"

namespace lt::run {
namespace {

constexpr const char *kGpu = "gpu", *kCublasLt = "cublaslt", *kCudnn = "cudnn", *kDigest = "algorithms";

constexpr std::pair<std::string_view, std::string_view> kDisplayNames[] = {
    {kGpu, "GPU"}, {kCublasLt, "cuBLASLt"}, {kCudnn, "cuDNN"}};

std::string_view display_name(std::string_view name) {
  for (const auto& [known, text] : kDisplayNames) {
    if (name == known) return text;
  }
  return name;
}

bool has(const ComputedBy& computed_by, std::string_view name) {
  return std::ranges::find(computed_by, name, &ComputedBy::value_type::first) != computed_by.end();
}

// "none" without the name.
std::string value_of(const ComputedBy& computed_by, std::string_view name) {
  const auto found = std::ranges::find(computed_by, name, &ComputedBy::value_type::first);
  return found == computed_by.end() ? "none" : found->second;
}

std::string cudnn_version() {
  const std::string built = built_version("cudnn"), loaded = loaded_cudnn();
  if (built.empty()) return "none";
  return loaded.empty() ? built : loaded;
}

ComputedBy computed_by(Device device) {
  if (device.type != DeviceType::cuda) return {};
  return {{kGpu, device::cuda::name(device.index)},
          {kCublasLt, kernels::cublaslt_version()},
          {kCudnn, cudnn_version()},
          {kDigest, kernels::digest_of_algorithms(kernels::matmul_algorithms(device))}};
}

// One value of a name, and the ranks that have it.
struct Held {
  std::string value;
  std::size_t first_rank, ranks;
};

// The values in the order of their first ranks.
std::vector<Held> values_of(const std::vector<ComputedBy>& of_ranks, std::string_view name) {
  std::vector<Held> values;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const std::string value = value_of(of_ranks[rank], name);
    const auto found = std::ranges::find(values, value, &Held::value);
    found == values.end() ? values.push_back({value, rank, 1}) : void(++found->ranks);
  }
  return values;
}

}  // namespace

std::string read_algorithms(const std::string& file) {
  io::FileText read = io::read_file(file);
  if (read.problem.empty() && read.text.empty()) read.problem = "an empty file";
  if (read.problem.empty()) return std::move(read.text);
  throw DataError("config",
                  fmt::format("train.algorithms {}: expected a table of algorithms, found: {}", file, read.problem),
                  "`bench tune` writes such a file; without this key, the library's own table computes");
}

Algorithms share_algorithms(const std::string& file, const Group& group, Device device) {
  const bool on_gpu = device.type == DeviceType::cuda;
  Algorithms shared{.file = file};
  collectively(group, [&] {
    if (on_gpu && group.rank() == 0)
      shared.table = file.empty() ? kernels::carried_matmul_algorithms(device) : read_algorithms(file);
  });
  shared.table = group.broadcast_bytes(shared.table, 0);
  collectively(group, [&] {
    if (!on_gpu) return;
    try {
      kernels::use_matmul_algorithms(device, shared.table, file.empty() ? "rank 0's table of algorithms" : file);
    } catch (const UsageError&) {  // for another kind of GPU
      if (group.rank() == 0) throw;
      kernels::use_matmul_algorithms(device, kernels::carried_matmul_algorithms(device), "the carried table");
    }
  });
  using Json = nlohmann::ordered_json;
  std::vector<ComputedBy> of_ranks;
  for (const std::string& text : group.all_gather_bytes(Json(computed_by(device)).dump()))
    of_ranks.push_back(Json::parse(text).get<ComputedBy>());
  shared.computed_by = merged(of_ranks), shared.differences = differences_of(of_ranks);
  return shared;
}

ComputedBy merged(const std::vector<ComputedBy>& of_ranks) {
  ComputedBy all;
  for (const auto& [name, value] : of_ranks.front()) {
    std::string& joined = all.emplace_back(name, value).second;
    const std::vector<Held> values = values_of(of_ranks, name);
    for (std::size_t i = 1; i < values.size(); ++i) joined += ", " + values[i].value;
  }
  return all;
}

std::string differences_of(const std::vector<ComputedBy>& of_ranks) {
  std::vector<std::string> differences;
  for (const auto& [name, value] : of_ranks.front()) {
    std::vector<std::string> texts;
    for (const Held& held : values_of(of_ranks, name)) {
      texts.push_back(fmt::format("{} on rank {}", held.value, held.first_rank));
      if (held.ranks > 1) texts.back() += fmt::format(" and {} more", held.ranks - 1);
    }
    if (texts.size() > 1) differences.push_back(fmt::format("{}: {}", display_name(name), fmt::join(texts, ", ")));
  }
  return fmt::format("{}", fmt::join(differences, "; "));
}

std::vector<std::string> computation_changes(const ComputedBy& before, const ComputedBy& now) {
  std::vector<std::string> lines;
  if (now.empty() && has(before, kGpu)) return {fmt::format("GPU: {} before, none now", value_of(before, kGpu))};
  for (const auto& [name, value] : before) {
    const std::string present = value_of(now, name);
    if (has(now, name) && value != present)
      lines.push_back(fmt::format("{}: {} before, {} now", display_name(name), value, present));
  }
  return lines;
}

std::string description_of(const Algorithms& algorithms) {
  const std::string digest = value_of(algorithms.computed_by, kDigest);
  std::string table = "table " + algorithms.file;
  if (algorithms.file.empty())
    table = algorithms.table.empty() ? "no table for this GPU" : "the library's table for this GPU";
  if (!algorithms.table.empty()) table += ", " + digest;
  return fmt::format("{}, cuBLASLt {}", table, value_of(algorithms.computed_by, kCublasLt));
}

}  // namespace lt::run
