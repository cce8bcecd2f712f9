// Converts text files to token files.
#include "libtrain/data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/file_list.h"
#include "data/token_writer.h"
#include "io/whole_file.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"

namespace lt {
namespace fs = std::filesystem;
namespace {

// The field of every line: a document each. Skips blank lines.
std::vector<std::string> documents_of_json_lines(const std::string& path, std::string_view lines,
                                                 const std::string& name) {
  std::vector<std::string> documents;
  for (Size number = 1; !lines.empty(); ++number) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object()) {
      throw DataError("data", fmt::format("{}:{}: expected a JSON object on one line, found {}", path, number,
                                          json.is_discarded() ? "broken JSON" : json.type_name()));
    }
    const auto field = json.find(name);
    if (field == json.end() || !field->is_string()) {
      throw DataError("data", fmt::format("{}:{}: field \"{}\": expected a string, found {}", path, number, name,
                                          field == json.end() ? "none" : field->type_name()));
    }
    documents.push_back(field->get<std::string>());
  }
  return documents;
}

// Appends the tokens of documents to `tokens`, each with the token that ends it. The byte tokenizer has no such token:
// its documents follow each other with nothing between them.
void append_documents(const Tokenizer& tokenizer, const std::vector<std::string>& documents,
                      std::vector<std::uint32_t>& tokens) {
  const bool separated = tokenizer.bytes_per_token() == 0;
  if (separated && !tokenizer.end_of_text()) {
    throw UsageError("data", "tokenizer: expected a token that ends documents, found none in tokenizer.json",
                     "docs/data.md lists the names of such tokens; text files need none");
  }
  const std::vector<std::string_view> texts(documents.begin(), documents.end());
  for (const Tokenizer::Ids& ids : tokenizer.encode_each(texts)) {
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    if (separated) tokens.push_back(*tokenizer.end_of_text());
  }
}

}  // namespace

PrepareResult prepare(const PrepareOptions& options) {
  if (options.inputs.empty()) throw UsageError("data", "input: expected at least one file, got none");
  if (options.out.empty()) throw UsageError("data", "out: expected a folder, got none");
  if (!(options.val_fraction >= 0 && options.val_fraction < 1)) {
    throw UsageError("data", fmt::format("val-fraction: expected a number in [0, 1), got {}", options.val_fraction));
  }
  const auto tokenizer = make_tokenizer(options.tokenizer);

  PrepareResult result;
  std::vector<std::uint32_t> tokens;
  for (const std::string& path : expand_files(options.inputs)) {
    const std::string text = read_whole_file("data", path);
    result.files += 1;
    if (path.ends_with(".jsonl")) {
      const std::vector<std::string> documents = documents_of_json_lines(path, text, options.field);
      append_documents(*tokenizer, documents, tokens);
      for (const std::string& document : documents) result.bytes += static_cast<Size>(document.size());
    } else {
      const Tokenizer::Ids ids = tokenizer->encode(text);
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      result.bytes += static_cast<Size>(text.size());
    }
  }
  if (tokens.empty()) {
    throw DataError("data", fmt::format("{}{}: expected text, found none", options.inputs[0],
                                        options.inputs.size() > 1 ? " and the files after it" : ""));
  }

  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) throw DataError("data", fmt::format("{}: cannot create the folder: {}", options.out, error.message()));

  // The small term keeps a product such as 0.29 * 100 from rounding down to the next lower integer.
  const auto val =
      static_cast<std::size_t>(std::floor(static_cast<double>(tokens.size()) * options.val_fraction + 1e-6));
  const std::span<const std::uint32_t> all(tokens);
  const std::string folder = options.out + "/";
  PendingFile train_file("data", folder + "train.bin"), tokenizer_file("data", folder + "tokenizer.json");
  std::optional<PendingFile> val_file;
  write_tokens(train_file, folder + "train.bin", all.first(tokens.size() - val));
  if (options.val_fraction > 0) {
    val_file.emplace("data", folder + "val.bin");
    write_tokens(*val_file, folder + "val.bin", all.last(val));
  }
  const std::string json = tokenizer->to_json();
  tokenizer_file.write(json.data(), json.size());
  std::vector<PendingFile*> files{&train_file, &tokenizer_file};
  if (val_file) files.push_back(&*val_file);
  for (PendingFile* const file : files) file->finish();
  for (PendingFile* const file : files) file->commit();
  // An older one would be of other text.
  if (!val_file) fs::remove(folder + "val.bin", error);
  result.train_tokens = static_cast<Size>(tokens.size() - val), result.val_tokens = static_cast<Size>(val);
  return result;
}

}  // namespace lt
