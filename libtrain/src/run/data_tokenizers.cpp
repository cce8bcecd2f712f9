// Reads and compares tokenizers.
#include "run/data_tokenizers.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/format/find.h"
#include "checkpoints/hugging_face/hf_folder.h"
#include "data/file_list.h"
#include "io/presence.h"
#include "io/whole_file.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "libtrain/tokenizer/tokenizer.h"
#include "tokenizer/same_tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace lt::run {
namespace fs = std::filesystem;
namespace {

NamedTokenizer tokenizer_in(const std::string& key, const fs::path& folder) {
  const fs::path path = folder / "tokenizer.json";
  if (!io::is_present("data", path))
    return {key, "no tokenizer.json in " + (folder.empty() ? "." : folder.string()), ""};
  return {key, path.string(), read_tokenizer(path.string())};
}

std::string shown(const NamedTokenizer& tokenizer) {
  return tokenizer::is_hugging_face_tokenizer(tokenizer.text) ? tokenizer.place
                                                              : fmt::format("bytes ({})", tokenizer.place);
}

// What a user can do where `other` is not of the tokenizer of `expected`.
std::string hint_of(const NamedTokenizer& expected, const NamedTokenizer& other) {
  if (!expected.text.empty() && supported_tokenizer(expected.text, expected.place) == nullptr) {
    return "`ltrain prepare` does not support that tokenizer: copy its tokenizer.json beside token files that another "
           "program made with it, or put the same tokenizer in a form that docs/how-to/data.md lists into the model's "
           "folder";
  }
  if (other.text.empty()) return "token files without a tokenizer.json count as bytes: put theirs beside them";
  if (expected.text.empty() && expected.key == "model.from")
    return "a model without a tokenizer.json counts as one of bytes: put its file into its folder";
  return "prepare the files with that tokenizer: `ltrain prepare --tokenizer`";
}

// That of model.from; nullopt if there is neither a Hugging Face folder nor a valid checkpoint. Throws DataError.
std::optional<NamedTokenizer> tokenizer_of_base(const Resolved& resolved) {
  const std::string& from = resolved.weights.from;
  if (checkpoint::is_hf_folder(from)) return tokenizer_in("model.from", from);
  const auto candidates = checkpoint::candidates(from, checkpoint::kAnyRun);
  const checkpoint::Listing* const newest = checkpoint::newest_valid(candidates);
  if (newest == nullptr) return std::nullopt;
  const std::string text = checkpoint::read_state(newest->path).tokenizer, manifest = newest->path + "/manifest.json";
  return NamedTokenizer{"model.from", text.empty() ? "none in " + manifest : manifest, text};
}

}  // namespace

std::string read_tokenizer(const std::string& path) {
  std::string text = io::read_whole_file("data", path);
  if (text.empty()) tokenizer::checked_tokenizer(text, path);
  return text;
}

std::string folder_of_tokenizer(const std::vector<DataSource>& sources) {
  return fs::path(data::expand_files(sources.at(0).files).at(0)).parent_path().string();
}

std::vector<NamedTokenizer> tokenizers_beside(const std::string& key, const std::vector<std::string>& files) {
  std::vector<NamedTokenizer> tokenizers;
  std::set<fs::path> seen;
  for (const std::string& file : data::expand_files(files)) {
    if (!fs::exists(file)) continue;
    const fs::path folder = fs::path(file).parent_path();
    if (seen.insert(folder).second) tokenizers.push_back(tokenizer_in(key, folder));
  }
  return tokenizers;
}

std::vector<NamedTokenizer> tokenizers_of_data(const Resolved& resolved) {
  std::vector<NamedTokenizer> all;
  const auto add = [&](const std::string& key, const std::vector<std::string>& files) {
    const auto more = tokenizers_beside(key, files);
    all.insert(all.end(), more.begin(), more.end());
  };
  const DataSpec& data = resolved.data;
  for (std::size_t i = 0; i < data.sources.size(); ++i) {
    add(data.key == "data.train" ? data.key : fmt::format("{}[{}]", data.key, i), data.sources[i].files);
  }
  if (resolved.evaluation.every > 0) add("data.val", data.val);
  return all;
}

void require_tokenizer(const NamedTokenizer& expected, const std::vector<NamedTokenizer>& found, TokenizerMatch match) {
  for (const NamedTokenizer& other : found) {
    if (other.text != expected.text) {
      // A broken file must not pass for that of bytes.
      for (const NamedTokenizer* const each : {&expected, &other}) {
        if (!each->text.empty()) tokenizer::checked_tokenizer(each->text, each->place);
      }
    }
    const bool more = tokenizer::extends_tokenizer(expected.text, other.text);
    if (more && match != TokenizerMatch::same) continue;
    const bool fewer = (match != TokenizerMatch::extended) && tokenizer::extends_tokenizer(other.text, expected.text);
    if (fewer && (more || match == TokenizerMatch::overlapping)) continue;
    throw UsageError("data", other.key, fmt::format("the tokenizer of {}, {}", expected.key, shown(expected)),
                     shown(other), hint_of(expected, other));
  }
}

void require_tokenizer_of_base(const Resolved& resolved) {
  if (const auto tokenizer = tokenizer_of_base(resolved))
    require_tokenizer(*tokenizer, tokenizers_of_data(resolved), TokenizerMatch::extended);
}

}  // namespace lt::run
