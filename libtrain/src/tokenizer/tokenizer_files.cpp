// Finds and reads the files in the folder of a tokenizer.json.
#include "tokenizer/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "io/presence.h"
#include "io/readable.h"
#include "io/utf8.h"
#include "io/whole_file.h"
#include "libtrain/error.h"

namespace lt::tokenizer {
namespace fs = std::filesystem;
namespace {

// Names that transformers gives them (tokenization_utils_base.py, utils/hub.py, VOCAB_FILES_NAMES of the classes).
constexpr std::string_view kNames[] = {
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
};
// A folder of chat templates that have names.
constexpr std::string_view kTemplates = "additional_chat_templates/", kTemplate = ".jinja";

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

}  // namespace

bool is_tokenizer_file(std::string_view path) {
  if (std::ranges::find(kNames, path) != std::end(kNames)) return true;
  if (!path.starts_with(kTemplates) || !io::is_utf8(path)) return false;  // manifests are JSON
  path.remove_prefix(kTemplates.size());
  return path.size() > kTemplate.size() && path.ends_with(kTemplate) && path.front() != '.' &&
         path.find('/') == std::string_view::npos && path.find('\0') == std::string_view::npos;
}

std::map<std::string, std::string> read_tokenizer_files(const std::string& component, const std::string& folder) {
  std::vector<std::string> paths(std::begin(kNames), std::end(kNames));
  const fs::path templates = (fs::path(folder) / kTemplates).parent_path();  // without the slash at its end
  if (io::is_present(component, templates)) {
    for (const fs::path& entry : io::readable_entries(templates)) {
      paths.push_back(std::string(kTemplates) + entry.filename().string());
    }
  }
  std::map<std::string, std::string> files;
  for (const std::string& path : paths) {
    const fs::path whole = fs::path(folder) / path;
    if (!is_tokenizer_file(path) || !io::is_present(component, whole)) continue;
    io::FileText file = io::read_file(whole.string(), true, kMostBytes);
    if (!file.problem.empty())
      throw DataError(component, whole.string() + ": expected a readable file, found: " + file.problem);
    files.emplace(path, std::move(file.text));
  }
  return files;
}

}  // namespace lt::tokenizer
