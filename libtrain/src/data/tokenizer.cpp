// The tokenizers, and the JSON files that describe them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/json_depth.h"
#include "io/whole_file.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"

namespace lt {
namespace {

// Ids 0 to 255 are the bytes.
class ByteTokenizer : public Tokenizer {
 public:
  std::vector<std::uint32_t> encode(std::string_view text) const override {
    std::vector<std::uint32_t> tokens(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) tokens[i] = static_cast<unsigned char>(text[i]);
    return tokens;
  }

  // An id of 256 or more becomes U+FFFD; a model with a larger vocabulary may produce one.
  std::string decode(const std::vector<std::uint32_t>& tokens) const override {
    std::string text;
    text.reserve(tokens.size());
    for (const std::uint32_t token : tokens) {
      if (token < 256) {
        text += static_cast<char>(token);
      } else {
        text += "\xEF\xBF\xBD";
      }
    }
    return text;
  }

  Size vocab() const override { return 256; }
  double bytes_per_token() const override { return 1; }
  std::string to_json() const override { return "{\"type\":\"byte\",\"vocab\":256}\n"; }
};

// The result is not an object if the text is invalid JSON or nests deeper than a tokenizer file does.
nlohmann::json parsed(const std::string& text) {
  return json_depth(text) > kMaxJsonDepth ? nlohmann::json() : nlohmann::json::parse(text, nullptr, false);
}

bool is_hugging_face(const nlohmann::json& json) {
  return json.contains("model") && json["model"].is_object() && json["model"].contains("vocab");
}

}  // namespace

bool can_read_tokenizer(const std::string& text) {
  const auto json = parsed(text);
  return !json.is_object() || !is_hugging_face(json);
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name_or_path) {
  if (name_or_path == "byte") return std::make_unique<ByteTokenizer>();
  if (!name_or_path.ends_with(".json")) {
    throw UsageError("data",
                     fmt::format("tokenizer: expected byte or the path of a tokenizer.json, got \"{}\"", name_or_path));
  }
  return tokenizer_from_json(read_whole_file("data", name_or_path), name_or_path);
}

std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& text, const std::string& where) {
  const auto json = parsed(text);
  if (!json.is_object()) throw DataError("data", where + ": expected a JSON object");
  if (is_hugging_face(json)) {
    throw UsageError(
        "data", where + ": this is a Hugging Face tokenizer; this version reads only the file of the byte tokenizer",
        "use --tokenizer byte; a later version reads BPE files");
  }
  const auto type = json.value("type", nlohmann::json());
  if (type != "byte") {
    throw DataError("data", fmt::format("{}: field \"type\": expected \"byte\", found {}", where,
                                        json.contains("type") ? type.dump() : "none"));
  }
  const auto vocab = json.value("vocab", nlohmann::json());
  if (vocab != 256) {
    throw DataError("data", fmt::format("{}: field \"vocab\": expected 256, found {}", where,
                                        json.contains("vocab") ? vocab.dump() : "none"));
  }
  return std::make_unique<ByteTokenizer>();
}

}  // namespace lt
