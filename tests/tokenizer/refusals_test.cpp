// Unsupported or broken content of a Hugging Face tokenizer.json. Each error names the file, the field, the expected
// and the found value.
#include <nlohmann/json.hpp>

#include "io/whole_file.h"
#include "libtrain/error.h"
#include "libtrain/tokenizer/tokenizer.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"

using namespace lt;
using lt_test::message_of;
using Json = nlohmann::json;

namespace {

Json fixture(std::size_t index) {
  return Json::parse(io::read_whole_file("test", LT_FIXTURES)).at("cases")[index].at("tokenizer");
}

template <class E>
std::string refusal(Json json, const char* pointer, const Json& value) {
  json[Json::json_pointer(pointer)] = value;
  return message_of<E>([&] { tokenizer_from_json(json.dump(), "t.json"); });
}

}  // namespace

TEST_CASE("tokenizer.json: kinds that are not supported are refused by name", "[tokenizer]") {
  const Json gpt2 = fixture(0), llama2 = fixture(4);
  CHECK(refusal<UsageError>(gpt2, "/model/type", "Unigram") ==
        "t.json: model.type: expected \"BPE\", found \"Unigram\"");
  CHECK(refusal<UsageError>(gpt2, "/model/dropout", 0.1) == "t.json: model.dropout: expected 0.0, found 0.1");
  CHECK(refusal<UsageError>(gpt2, "/model/end_of_word_suffix", "</w>") ==
        "t.json: model.end_of_word_suffix: expected \"\", found \"</w>\"");
  CHECK(refusal<UsageError>(gpt2, "/normalizer", {{"type", "Lowercase"}}) ==
        "t.json: normalizer: expected NFC, Prepend and Replace, in this order, each at most once, found \"Lowercase\"");
  CHECK(
      refusal<UsageError>(gpt2, "/pre_tokenizer", {{"type", "Whitespace"}}) ==
      "t.json: pre_tokenizer: expected Split, Digits, Punctuation and at most one ByteLevel, or Metaspace alone, found "
      "\"Whitespace\"");
  CHECK(refusal<UsageError>(fixture(2), "/pre_tokenizer/pretokenizers/0/behavior", "MergedWithNext") ==
        "t.json: pre_tokenizer.pretokenizers[0].behavior: expected Isolated or Removed, found \"MergedWithNext\"");
  CHECK(refusal<UsageError>(fixture(2), "/pre_tokenizer/pretokenizers/0/pattern", {{"Regex", "\\b\\w+"}}) ==
        "t.json: pre_tokenizer.pretokenizers[0]: pattern \"\\b\\w+\": expected what has one meaning in all syntaxes of "
        "regular expressions, found \\b");
  CHECK(refusal<UsageError>(gpt2, "/decoder", {{"type", "WordPiece"}}) ==
        "t.json: decoder: expected ByteLevel, as the pre-tokenizer is, found \"WordPiece\"");
  CHECK(refusal<UsageError>(llama2, "/decoder", {{"type", "ByteLevel"}}) ==
        "t.json: decoder: expected Metaspace, or Replace, ByteFallback, Fuse and Strip, found \"ByteLevel\"");
  Json without_bytes = gpt2;
  without_bytes["model"]["vocab"] = {{"a", 1}}, without_bytes["model"]["merges"] = Json::array();
  CHECK(refusal<UsageError>(without_bytes, "/model/byte_fallback", true) ==
        "t.json: model.byte_fallback: expected false, as model.vocab has no token for the byte 0x00, found true");
  Json unsupported = gpt2;
  unsupported["model"]["type"] = "Unigram";
  CHECK(supported_tokenizer(unsupported.dump(), "t.json") == nullptr);
  CHECK(supported_tokenizer(gpt2.dump(), "t.json") != nullptr);
}

TEST_CASE("tokenizer.json: a broken file is told by field", "[tokenizer]") {
  const Json gpt2 = fixture(0);
  CHECK(refusal<DataError>(gpt2, "/model/vocab", {{"a", -1}})
            .starts_with("t.json: model.vocab: expected an id of 0 to "));
  CHECK(refusal<DataError>(gpt2, "/model/merges/0", "ab") ==
        "t.json: model.merges[0]: expected two tokens, found \"ab\"");
  CHECK(refusal<DataError>(gpt2, "/model/merges/3", {"a", "~~~"}) ==
        "t.json: model.merges[3]: expected tokens of model.vocab, found \"~~~\"");
  CHECK(refusal<DataError>(gpt2, "/model/vocab/!", Json::array()).ends_with(", found an array"));
  CHECK(refusal<DataError>(gpt2, "/added_tokens/0/id", 5'000'000) ==
        "t.json: added_tokens: expected ids below 67224 for so few tokens, found 5000000 of \"<|end|>\"");
  CHECK(refusal<DataError>(gpt2, "/model/merges", "none") == "t.json: model.merges: expected an array, found \"none\"");
  CHECK(refusal<DataError>(gpt2, "/added_tokens/0/content", "") ==
        "t.json: added_tokens[0].content: expected text, found \"\"");
  CHECK(
      refusal<DataError>(gpt2, "/added_tokens/0/id", "x").starts_with("t.json: added_tokens[0].id: expected an id of"));
  CHECK(refusal<DataError>(gpt2, "/added_tokens/0/lstrip", 1) ==
        "t.json: added_tokens[0].lstrip: expected true or false, found 1");
  CHECK(refusal<DataError>(fixture(4), "/model/unk_token", "<none>") ==
        "t.json: model.unk_token: expected a token of model.vocab, found \"<none>\"");
}

TEST_CASE("tokenizer.json: an added token has one id, which is no other token's", "[tokenizer]") {
  const Json gpt2 = fixture(0);  // 420 tokens; <|end|> is 0, and so in model.vocab; [MASK] is 420
  const auto refused = [&](const Json& added) { return refusal<DataError>(gpt2, "/added_tokens/2", added); };
  CHECK(refusal<DataError>(gpt2, "/added_tokens/0/id", 421) ==
        "t.json: added_tokens[0].id: expected 0, as in model.vocab, found 421");
  CHECK(refused({{"id", 420}, {"content", "<x>"}}) ==
        "t.json: added_tokens[2].id: expected another id than that of added_tokens[1], found 420");
  CHECK(refused({{"id", 421}, {"content", "[MASK]"}}) ==
        "t.json: added_tokens[2].id: expected 420, as in added_tokens[1], found 421");
  CHECK(refused({{"id", gpt2["model"]["vocab"]["a"]}, {"content", "<x>"}})
            .starts_with("t.json: added_tokens[2].id: expected another id than that of \"a\" in model.vocab, found "));
  Json twice = gpt2;
  twice["added_tokens"][2] = twice["added_tokens"][1];
  CHECK(tokenizer_from_json(twice.dump(), "t.json")->encode("[MASK]") == std::vector<std::uint32_t>{420});
  Json gap = gpt2;
  gap["added_tokens"][2] = {{"id", 430}, {"content", "<x>"}};
  CHECK(tokenizer_from_json(gap.dump(), "t.json")->encode("<x>") == std::vector<std::uint32_t>{430});
}
