// Makes tokenizers from names and from files.
#include "libtrain/tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "io/utf8.h"
#include "io/whole_file.h"
#include "libtrain/error.h"
#include "tokenizer/bpe_tokenizer.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace lt {
namespace {

// Takes the characters that are complete from `bytes`.
std::string take_complete(std::string& bytes) {
  std::string text;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const std::size_t length = io::utf8_length(rest), begun = length > 0 ? 0 : io::utf8_begun(rest);
    if (length == 0 && begun == rest.size()) break;
    if (length > 0) {
      text += rest.substr(0, length);
    } else {
      text += "\xEF\xBF\xBD";
    }
    rest.remove_prefix(std::max<std::size_t>({1, length, begun}));
  }
  bytes = std::string(rest);
  return text;
}

}  // namespace

std::vector<Tokenizer::Ids> Tokenizer::encode_each(std::span<const std::string_view> texts) const {
  std::vector<Ids> all;
  for (const std::string_view text : texts) all.push_back(encode(text));
  return all;
}

std::size_t Tokenizer::encode_front(std::string_view text, bool /*continues*/, bool ends, Ids& ids) const {
  if (!ends) return 0;
  const Ids all = encode(text);
  ids.insert(ids.end(), all.begin(), all.end());
  return text.size();
}

// For tokens whose bytes one after another are the text.
Tokenizer::Located Tokenizer::encode_located(std::string_view text, std::span<const std::size_t> positions) const {
  Located located{encode(text), {}};
  std::size_t end = 0;
  for (std::size_t i = 0; i < located.ids.size() && located.tokens.size() < positions.size(); ++i) {
    end += bytes_of(located.ids[i]).size();
    while (located.tokens.size() < positions.size() && positions[located.tokens.size()] < end)
      located.tokens.push_back({i, i + 1});
  }
  const std::size_t all = located.ids.size();
  while (located.tokens.size() < positions.size() && positions[located.tokens.size()] < text.size())
    located.tokens.push_back({all, all});
  return located;
}

std::string TextStream::push(std::uint32_t token) {
  if (tokenizer_.bytes_per_token() > 0) return tokenizer_.decode({token});
  pending_ += tokenizer_.bytes_of(token);
  return take_complete(pending_);
}

std::string TextStream::finish() {
  const std::string rest = std::exchange(pending_, {});
  return rest.empty() ? "" : io::repaired_utf8(rest);
}

std::unique_ptr<Tokenizer> supported_tokenizer(const std::string& text, const std::string& where) {
  try {
    return tokenizer_from_json(text, where);
  } catch (const UsageError&) {
    return nullptr;
  }
}

std::string unsupported_reason(const std::string& text, const std::map<std::string, std::string>& other_files,
                               const std::string& where) {
  if (text.empty()) {
    if (other_files.empty()) return "";
    std::vector<std::string> names;
    for (const auto& [name, bytes] : other_files) names.push_back(name);
    return fmt::format("{}: expected a tokenizer.json, found only {}", where, fmt::join(names, ", "));
  }
  try {
    tokenizer_from_json(text, where);
    return "";
  } catch (const UsageError& e) {
    return e.what();
  }
}

std::string find_tokenizer(const std::string& name_or_path) {
  std::error_code ignored;
  if (name_or_path == "byte") return name_or_path;
  if (std::filesystem::is_directory(name_or_path, ignored))
    return (std::filesystem::path(name_or_path) / "tokenizer.json").string();
  if (name_or_path.ends_with(".json")) return name_or_path;
  throw UsageError(
      "data",
      fmt::format("tokenizer: expected byte, a tokenizer.json or a folder that holds one, got \"{}\"", name_or_path));
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name_or_path) {
  const std::string found = find_tokenizer(name_or_path);
  return found == "byte" ? tokenizer::make_byte_tokenizer()
                         : tokenizer_from_json(io::read_whole_file("data", found), found);
}

std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& text, const std::string& where) {
  const auto json = tokenizer::checked_tokenizer(text, where);
  if (!tokenizer::is_hugging_face_tokenizer(json)) return tokenizer::make_byte_tokenizer();
  tokenizer::TokenizerDescription description = tokenizer::read_tokenizer_json(json, where);
  try {
    return std::make_unique<tokenizer::BpeTokenizer>(std::move(description), text);
  } catch (const DataError& e) {
    throw DataError(e.component(), where + ": " + e.what());
  } catch (const UsageError& e) {
    throw UsageError(e.component(), where + ": " + e.what(), e.hint());
  }
}

}  // namespace lt
