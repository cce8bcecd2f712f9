// Recognises adapters and caches by their files.
#include "checkpoints/format/found_instead.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/json_depth.h"
#include "io/readable.h"
#include "io/whole_file.h"

namespace lt::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdapter = "adapter_config.json";

}  // namespace

FoundInstead found_instead(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  const io::FileText adapter = io::read_file((fs::path(path) / kAdapter).string(), true, kMostBytes);
  if (adapter.problem.empty()) {
    using Json = nlohmann::json;
    const Json json =
        io::json_depth(adapter.text) > io::kMaxJsonDepth ? Json() : Json::parse(adapter.text, nullptr, false);
    const auto base = json.is_object() ? json.find("base_model_name_or_path") : json.end();
    const bool names_base = json.is_object() && base != json.end() && base->is_string() && *base != "";
    return {"an adapter" + (names_base ? " of " + base->get<std::string>() : ""),
            "merge it into its base first (PEFT's merge_and_unload), or export a run of adapters without --adapter"};
  }
  std::vector<std::string> snapshots;
  for (const fs::path& entry : io::readable_entries(fs::path(path) / "snapshots")) snapshots.push_back(entry.string());
  if (snapshots.empty()) return {};
  std::ranges::sort(snapshots);
  return {"the root of a Hugging Face cache, with the model in " + fmt::format("{}", fmt::join(snapshots, " or ")), ""};
}

}  // namespace lt::checkpoint
