// Converts text files to token files.
#include "libtrain/data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/file_list.h"
#include "data/token_writer.h"
#include "io/whole_file.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"

namespace lt {
namespace fs = std::filesystem;
namespace {

// Concatenates the field "text" of every line. Skips blank lines.
std::string text_of_json_lines(const std::string& path, std::string_view lines) {
  std::string text;
  for (Size number = 1; !lines.empty(); ++number) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object()) {
      throw DataError("data", fmt::format("{}:{}: expected a JSON object on one line, found {}", path, number,
                                          json.is_discarded() ? "broken JSON" : json.type_name()));
    }
    const auto field = json.find("text");
    if (field == json.end() || !field->is_string()) {
      throw DataError("data", fmt::format("{}:{}: field \"text\": expected a string, found {}", path, number,
                                          field == json.end() ? "none" : field->type_name()));
    }
    text += field->get_ref<const std::string&>();
  }
  return text;
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
    std::string text = read_whole_file("data", path);
    if (path.ends_with(".jsonl")) text = text_of_json_lines(path, text);
    const auto encoded = tokenizer->encode(text);
    tokens.insert(tokens.end(), encoded.begin(), encoded.end());
    result.files += 1, result.bytes += static_cast<Size>(text.size());
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
  PendingFile train_file("data", folder + "train.bin"), val_file("data", folder + "val.bin"),
      tokenizer_file("data", folder + "tokenizer.json");
  write_tokens(train_file, folder + "train.bin", all.first(tokens.size() - val));
  write_tokens(val_file, folder + "val.bin", all.last(val));
  const std::string json = tokenizer->to_json();
  tokenizer_file.write(json.data(), json.size());
  for (PendingFile* file : {&train_file, &val_file, &tokenizer_file}) file->finish();
  for (PendingFile* file : {&train_file, &val_file, &tokenizer_file}) file->commit();
  result.train_tokens = static_cast<Size>(tokens.size() - val), result.val_tokens = static_cast<Size>(val);
  return result;
}

}  // namespace lt
