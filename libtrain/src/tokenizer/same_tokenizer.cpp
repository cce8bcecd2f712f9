// Compares the parts of tokenizers that determine ids. Ignores decoders and post-processors.
#include "tokenizer/same_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "libtrain/error.h"
#include "tokenizer/tokenizer_json.h"

namespace lt::tokenizer {
namespace {

using Json = nlohmann::json;

// nullopt for a kind that is not supported.
std::optional<TokenizerDescription> description_of(const Json& json) {
  try {
    return read_tokenizer_json(json, "tokenizer.json");
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

bool extends_tokenizer(const std::string& base, const std::string& more) {
  if (base == more) return true;
  const Json first = parsed_tokenizer(base), second = parsed_tokenizer(more);
  const bool is_hf = is_hugging_face_tokenizer(first);
  if (is_hf != is_hugging_face_tokenizer(second)) return false;
  if (!is_hf) return true;
  const auto a = description_of(first), b = description_of(second);
  if (!a || !b) return first == second;
  const auto has = [&](const AddedToken& token) { return std::ranges::find(b->added, token) != b->added.end(); };
  return a->vocabulary == b->vocabulary && a->merges == b->merges && a->bpe == b->bpe &&
         a->normalizer == b->normalizer && a->pre_tokenizer == b->pre_tokenizer && std::ranges::all_of(a->added, has);
}

}  // namespace lt::tokenizer
