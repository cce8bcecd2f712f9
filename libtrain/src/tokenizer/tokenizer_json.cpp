// Reads the parts of a tokenizer.json one after another. Rejects every unsupported field that would change the tokens.
#include "tokenizer/tokenizer_json.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "io/json_depth.h"
#include "io/json_problem.h"
#include "libtrain/error.h"
#include "tokenizer/byte_alphabet.h"

namespace lt::tokenizer {
namespace {

using Json = nlohmann::json;

constexpr const char* kHint =
    "docs/how-to/data.md lists the tokenizers that are supported, and says how to train a model of another one";
// The pattern of the ByteLevel pre-tokenizer (Radford et al. 2019).
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The patterns of Digits and Punctuation.
constexpr const char *kDigit = R"(\p{N})", *kDigits = R"(\p{N}+)";
constexpr const char *kMark = R"([\p{P}$+<=>^`|~])", *kMarks = R"([\p{P}$+<=>^`|~]+)";

// A value in a message: an object by its type, and no more than a line.
std::string shown(const Json& value) {
  const std::string text = value.is_object()  ? value.value("type", Json("an object")).dump()
                           : value.is_array() ? "an array"
                                              : value.dump();
  return text.size() <= 80 ? text : text.substr(0, 80) + "...";
}

// One object of the file, by its path.
class Part {
 public:
  Part(const Json& json, std::string where, std::string path)
      : json_(json), where_(std::move(where)), path_(std::move(path)) {}

  bool is_null() const { return json_.is_null(); }
  std::string type() const { return text("type", ""); }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key) && !json_.at(key).is_null(); }

  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_.at(key).is_boolean()) broken(key, "true or false", json_.at(key));
    return json_.at(key).get<bool>();
  }
  std::string text(const char* key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_.at(key).is_string()) broken(key, "text", json_.at(key));
    return json_.at(key).get<std::string>();
  }
  Part child(const char* key) const {
    static const Json none;
    return {has(key) ? json_.at(key) : none, where_, joined(key)};
  }
  // The elements of an array.
  std::vector<Part> list(const char* key) const {
    std::vector<Part> parts;
    if (!has(key)) return parts;
    const Json& array = json_.at(key);
    if (!array.is_array()) broken(key, "an array", array);
    for (std::size_t i = 0; i < array.size(); ++i)
      parts.emplace_back(array[i], where_, fmt::format("{}[{}]", joined(key), i));
    return parts;
  }
  // Throws unless the key, where it is there, has this value.
  void require(const char* key, const Json& value) const {
    if (has(key) && json_.at(key) != value) refuse(key, value.dump(), json_.at(key));
  }

  const Json& json() const { return json_; }
  [[noreturn]] void refuse_type(const std::string& expected) const {
    throw UsageError("tokenizer", fmt::format("{}: {}: expected {}, found {}", where_, path_, expected, shown(json_)),
                     kHint);
  }
  [[noreturn]] void refuse(const char* key, const std::string& expected, const Json& found) const {
    throw UsageError("tokenizer",
                     fmt::format("{}: {}: expected {}, found {}", where_, joined(key), expected, shown(found)), kHint);
  }
  // For an error of the pattern, which names neither file nor place.
  [[noreturn]] void refuse_pattern(const UsageError& e) const {
    throw UsageError(e.component(), fmt::format("{}: {}: {}", where_, path_, e.what()), kHint);
  }
  [[noreturn]] void broken(const char* key, const std::string& expected, const Json& found) const {
    throw DataError("tokenizer",
                    fmt::format("{}: {}: expected {}, found {}", where_, joined(key), expected, shown(found)));
  }

 private:
  std::string joined(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

  const Json& json_;
  std::string where_, path_;
};

std::string literal_pattern(const Part& part) {
  const Part pattern = part.child("pattern");
  if (!pattern.has("String")) part.refuse("pattern", "a String", pattern.json());
  return pattern.text("String", "");
}

void read_normalizer(const Part& part, Normalizer& normalizer) {
  if (part.is_null()) return;
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const Part& each : part.list("normalizers")) read_normalizer(each, normalizer);
  } else if (type == "NFC" && normalizer.prepend.empty() && normalizer.replaced.empty()) {
    normalizer.nfc = true;
  } else if (type == "Prepend" && normalizer.prepend.empty() && normalizer.replaced.empty()) {
    normalizer.prepend = part.text("prepend", "");
  } else if (type == "Replace" && normalizer.replaced.empty()) {
    normalizer.replaced = literal_pattern(part);
    normalizer.replacement = part.text("content", "");
  } else {
    part.refuse_type("NFC, Prepend and Replace, in this order, each at most once");
  }
}

PreTokenizer::Prepend prepend_of(const Part& part) {
  const std::string scheme = part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme == "always") return PreTokenizer::Prepend::always;
  if (scheme == "first") return PreTokenizer::Prepend::first;
  if (scheme == "never") return PreTokenizer::Prepend::never;
  part.refuse("prepend_scheme", "always, first or never", scheme);
}

std::string quoted(const std::string& literal) {
  std::string pattern;
  for (const char c : literal) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

Split::Drops drops_of(const Part& part, const std::string& behavior, bool inverted) {
  if (behavior == "Isolated") return Split::Drops::nothing;
  if (behavior == "Removed") return inverted ? Split::Drops::others : Split::Drops::matches;
  part.refuse("behavior", "Isolated or Removed", behavior);
}

void read_pre_tokenizer(const Part& part, TokenizerDescription& to) {
  PreTokenizer& rules = to.pre_tokenizer;
  const auto add = [&](const std::string& pattern, Split::Drops drops) {
    const bool is_of_class = pattern == kDigit || pattern == kDigits || pattern == kMark || pattern == kMarks;
    rules.splits.push_back({Regex(pattern), drops, is_of_class, to.bpe.by_bytes});
  };
  if (part.is_null()) return;
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const Part& each : part.list("pretokenizers")) read_pre_tokenizer(each, to);
  } else if (type == "Split" && !rules.metaspace) {
    const Part given = part.child("pattern");
    const std::string literal = given.has("Regex") ? "" : literal_pattern(part);
    const Normalizer& normalizer = to.normalizer;
    if (literal.size() == 1 && literal == normalizer.replaced && !to.bpe.by_bytes &&
        normalizer.replacement.find(literal) == std::string::npos) {
      return;  // the normalizer leaves none to match, as in Gemma's
    }
    const auto drops = drops_of(part, part.text("behavior", "Isolated"), part.flag("invert", false));
    try {
      add(given.has("Regex") ? given.text("Regex", "") : quoted(literal), drops);
    } catch (const UsageError& e) {
      part.refuse_pattern(e);
    }
  } else if (type == "Digits" && !rules.metaspace) {
    add(part.flag("individual_digits", false) ? kDigit : kDigits, Split::Drops::nothing);
  } else if (type == "Punctuation" && !rules.metaspace) {
    const std::string behavior = part.text("behavior", "Isolated");
    if (behavior == "Contiguous") {
      add(kMarks, Split::Drops::nothing);
    } else {
      add(kMark, drops_of(part, behavior, false));
    }
  } else if (type == "ByteLevel" && !to.bpe.by_bytes && !rules.metaspace) {
    rules.add_prefix_space = part.flag("add_prefix_space", true);
    if (rules.add_prefix_space && !rules.splits.empty()) {
      part.refuse("add_prefix_space", "false after what splits", true);
    }
    if (part.flag("use_regex", true)) add(kGpt2Pattern, Split::Drops::nothing);
    to.bpe.by_bytes = true;
  } else if (type == "Metaspace" && !to.bpe.by_bytes && !rules.metaspace && rules.splits.empty()) {
    part.require("replacement", kMetaspace);
    part.require("str_rep", kMetaspace);
    rules.metaspace = true;
    rules.prepend = prepend_of(part);
    rules.split_metaspace = part.flag("split", true);
  } else {
    part.refuse_type("Split, Digits, Punctuation and at most one ByteLevel, or Metaspace alone");
  }
}

void read_decoder(const Part& part, TokenDecoder& decoder) {
  if (part.is_null()) return;
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const Part& each : part.list("decoders")) read_decoder(each, decoder);
  } else if (type == "Metaspace" && !decoder.bytes) {
    part.require("replacement", kMetaspace);
    decoder.first_without_spaces = prepend_of(part) != PreTokenizer::Prepend::never;
  } else if (type == "Replace" && !decoder.bytes) {
    if (literal_pattern(part) != kMetaspace) part.refuse("pattern", "U+2581", part.json().at("pattern"));
    part.require("content", " ");
  } else if (type == "Strip" && !decoder.bytes) {
    part.require("content", " ");
    part.require("start", 1);
    part.require("stop", 0);
    decoder.strip_first_space = true;
  } else if (!(type == "ByteLevel" && decoder.bytes) && type != "ByteFallback" && type != "Fuse") {
    part.refuse_type(decoder.bytes ? "ByteLevel, as the pre-tokenizer is"
                                   : "Metaspace, or Replace, ByteFallback, Fuse and Strip");
  }
}

std::uint32_t read_id(const Part& part, const char* key, const Json& value) {
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 28;
  if (!value.is_number_integer() || value < 0 || value >= kMostTokens) {
    part.broken(key, fmt::format("an id of 0 to {}", kMostTokens - 1), value);
  }
  return value.get<std::uint32_t>();
}

std::vector<AddedToken> read_added(const Part& file) {
  std::vector<AddedToken> added;
  for (const Part& part : file.list("added_tokens")) {
    if (!part.has("id")) part.broken("id", "an id", Json());
    AddedToken token{.id = read_id(part, "id", part.json().at("id")), .content = part.text("content", "")};
    token.single_word = part.flag("single_word", false);
    token.lstrip = part.flag("lstrip", false), token.rstrip = part.flag("rstrip", false);
    token.special = part.flag("special", false);
    token.normalized = part.flag("normalized", !token.special);
    if (token.content.empty()) part.broken("content", "text", token.content);
    added.push_back(std::move(token));
  }
  return added;
}

// An added token keeps the id that its text has in model.vocab, else it has one that is no other token's. The
// tokenizers package goes by the texts alone, so that it would give other ids than the file says.
void require_own_ids(const Part& file, const std::vector<AddedToken>& added) {
  const Json& vocabulary = file.child("model").json().at("vocab");
  const auto refuse = [&](std::size_t i, const std::string& expected) {
    file.broken(fmt::format("added_tokens[{}].id", i).c_str(), expected, added[i].id);
  };
  std::unordered_map<std::uint32_t, std::size_t> by_id;
  std::unordered_map<std::string_view, std::size_t> by_content;
  for (std::size_t i = 0; i < added.size(); ++i) {
    const std::uint32_t id = added[i].id;
    const std::string& content = added[i].content;
    const std::size_t same_id = by_id.emplace(id, i).first->second;
    const std::size_t same_content = by_content.emplace(content, i).first->second;
    if (same_id != i && added[same_id].content == content) continue;  // twice the same
    if (same_id != i) refuse(i, fmt::format("another id than that of added_tokens[{}]", same_id));
    if (same_content != i) refuse(i, fmt::format("{}, as in added_tokens[{}]", added[same_content].id, same_content));
    const auto known = vocabulary.find(content);
    if (known != vocabulary.end() && *known != id) refuse(i, fmt::format("{}, as in model.vocab", known->dump()));
  }
  for (const auto& [name, id] : vocabulary.items()) {
    const auto found = by_id.find(id.get<std::uint32_t>());
    if (found == by_id.end() || added[found->second].content == name) continue;
    refuse(found->second, fmt::format("another id than that of {} in model.vocab", Json(name).dump()));
  }
}

void read_model(const Part& model, TokenizerDescription& to) {
  if (model.text("type", "BPE") != "BPE") model.refuse("type", "\"BPE\"", model.json().at("type"));
  for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) model.require(key, "");
  model.require("dropout", 0.0);
  to.bpe.byte_fallback = model.flag("byte_fallback", false);
  to.bpe.fuse_unknown = model.flag("fuse_unk", false);
  to.bpe.ignore_merges = model.flag("ignore_merges", false);
  if (!model.has("vocab") || !model.json().at("vocab").is_object()) model.broken("vocab", "an object", Json());
  const auto stored = [&](const std::string& name) {
    return to.bpe.by_bytes ? bytes_of_alphabet(name) : std::optional(name);
  };
  const std::string unknown = model.text("unk_token", "");
  for (const auto& [name, id] : model.json().at("vocab").items()) {
    const std::uint32_t token = read_id(model, "vocab", id);
    if (!unknown.empty() && name == unknown) to.bpe.unknown = token;
    // A name outside the byte alphabet is that of an added token: no word is ever equal to it.
    if (auto bytes = stored(name)) to.vocabulary.emplace_back(std::move(*bytes), token);
  }
  if (!unknown.empty() && !to.bpe.unknown) model.broken("unk_token", "a token of model.vocab", unknown);
  std::size_t number = 0;
  for (const Part& merge : model.list("merges")) {
    std::string left, right;
    const Json& pair = merge.json();
    if (pair.is_string()) {
      const auto& text = pair.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space != std::string::npos) left = text.substr(0, space), right = text.substr(space + 1);
    } else if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string()) {
      left = pair[0].get<std::string>(), right = pair[1].get<std::string>();
    }
    const auto first = stored(left), second = stored(right);
    if (left.empty() || right.empty() || !first || !second) {
      model.broken(fmt::format("merges[{}]", number).c_str(), "two tokens", pair);
    }
    to.merges.emplace_back(*first, *second);
    ++number;
  }
}

}  // namespace

Json parsed_tokenizer(const std::string& text) {
  return io::json_depth(text) > io::kMaxJsonDepth ? Json() : Json::parse(text, nullptr, false);
}

Json checked_tokenizer(const std::string& text, const std::string& where) {
  Json json = parsed_tokenizer(text);
  if (!json.is_object()) throw DataError("data", where + ": expected a JSON object, found " + io::json_problem(text));
  if (is_hugging_face_tokenizer(json)) return json;
  const auto field = [&](const char* name) { return json.contains(name) ? json[name].dump() : "none"; };
  if (!json.contains("type"))
    throw DataError("data", where + ": expected a tokenizer.json, with a field \"model\", found none");
  if (json["type"] != "byte") {
    throw DataError("data", fmt::format("{}: field \"type\": expected \"byte\", found {}", where, field("type")));
  }
  if (json.value("vocab", Json()) != 256) {
    throw DataError("data", fmt::format("{}: field \"vocab\": expected 256, found {}", where, field("vocab")));
  }
  return json;
}

bool is_hugging_face_tokenizer(const Json& json) {
  return json.is_object() && json.contains("model") && json["model"].is_object() && json["model"].contains("vocab");
}

bool is_hugging_face_tokenizer(const std::string& text) { return is_hugging_face_tokenizer(parsed_tokenizer(text)); }

TokenizerDescription read_tokenizer_json(const Json& json, const std::string& where) {
  const Part file(json, where, "");
  TokenizerDescription description;
  description.bpe.by_bytes = false;
  read_normalizer(file.child("normalizer"), description.normalizer);
  read_pre_tokenizer(file.child("pre_tokenizer"), description);
  description.decoder.bytes = description.bpe.by_bytes;
  read_decoder(file.child("decoder"), description.decoder);
  description.added = read_added(file);
  read_model(file.child("model"), description);
  // A table by id must not take more memory than the file explains.
  const std::size_t most = 65536 + 4 * (description.vocabulary.size() + description.added.size());
  const auto require_below = [&](const char* field, const std::string& name, std::uint32_t id) {
    if (id < most) return;
    throw DataError("tokenizer", fmt::format("{}: {}: expected ids below {} for so few tokens, found {} of \"{}\"",
                                             where, field, most, id, name));
  };
  for (const auto& [name, id] : description.vocabulary) require_below("model.vocab", name, id);
  for (const AddedToken& token : description.added) require_below("added_tokens", token.content, token.id);
  require_own_ids(file, description.added);
  return description;
}

}  // namespace lt::tokenizer
