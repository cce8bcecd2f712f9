// Conversations and packed blocks: tokens, and the masks that say which of them are targets.
#include <algorithm>
#include <map>

#include "data/packing.h"
#include "data/prepared.h"
#include "libtrain/data/prepare.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"

using namespace lt;
using namespace lt::data;
using lt_test::mask_of;
using lt_test::message_of;
using lt_test::TempFolder;
using lt_test::tokens_of;
using Tokens = std::vector<std::int32_t>;

namespace {

const std::string kChatMarks = R"({"id":300,"content":"<|endoftext|>","special":true},
    {"id":301,"content":"<|im_start|>","special":true},{"id":302,"content":"<|im_end|>","special":true})";

// Writes a line for each block: '.' for a token that is no target.
std::string masked_text(const Tokens& tokens, const std::vector<int>& mask) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    text += mask[i] == 0 ? '.' : tokens[i] < 256 ? static_cast<char>(tokens[i]) : '#';
  return text;
}

}  // namespace

TEST_CASE("prepare: a conversation's targets are the assistant's content and what ends it", "[data]") {
  const TempFolder folder;
  const std::string lines =
      folder.write("a.json", R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}]})"
                             "\n\n"
                             R"({"id":1,"messages":[{"role":"assistant","content":"x"}]})");
  const PrepareResult result = prepare({.inputs = {lines}, .out = folder / "out", .val_fraction = 0, .chat = "plain"});
  const Tokens tokens = tokens_of(folder / "out/train.bin");
  CHECK(std::string(tokens.begin(), tokens.end()) == "user: Hi\nassistant: Ho\nassistant: x\n");
  CHECK(masked_text(tokens, mask_of(folder / "out/train.mask", tokens.size())) ==
        "....................Ho\n...........x\n");
  CHECK(result.masked_tokens == 31);
  CHECK(result.bytes == 5);

  const std::string tokenizer = folder.write("t.json", lt_test::byte_level_tokenizer(kChatMarks));
  prepare({.inputs = {lines}, .tokenizer = tokenizer, .out = folder / "out", .val_fraction = 0, .chat = "chatml"});
  const Tokens marked = tokens_of(folder / "out/train.bin");
  const std::vector<int> mask = mask_of(folder / "out/train.mask", marked.size());
  REQUIRE(mask.size() == marked.size());
  Tokens targets;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (mask[i] == 1) targets.push_back(marked[i]);
  }
  CHECK(targets == Tokens{'H', 'o', 302, 'x', 302});
  CHECK(std::count(marked.begin(), marked.end(), 300) == 2);  // ends each conversation
  CHECK(lt_test::names_in(folder / "out") == std::vector<std::string>{"tokenizer.json", "train.bin", "train.mask"});
}

TEST_CASE("prepare: a mask stands beside each file that has one", "[data]") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 4; ++i)
    text += R"({"messages":[{"role":"assistant","content":"abcdefgh"}]})"
            "\n";
  const std::string lines = folder.write("a.jsonl", text);
  prepare({.inputs = {lines}, .out = folder / "out", .val_fraction = 0.25, .chat = "plain", .max_file_tokens = 40});
  CHECK(lt_test::names_in(folder / "out") == std::vector<std::string>{"tokenizer.json", "train-00001.bin",
                                                                      "train-00001.mask", "train.bin", "train.mask",
                                                                      "val.bin", "val.mask"});
  std::string all;
  for (const char* const name : {"train", "train-00001", "val"}) {
    const std::string stem = folder / ("out/" + std::string(name));
    const Tokens tokens = tokens_of(stem + ".bin");
    all += masked_text(tokens, mask_of(stem + ".mask", tokens.size()));
  }
  const std::string one = "...........abcdefgh\n";
  CHECK(all == one + one + one + one);
}

TEST_CASE("prepare: broken conversations are refused by file, line and field", "[data]") {
  const TempFolder folder;
  const auto refusal = [&](const std::string& line) {
    const std::string path = folder.write("a.jsonl", R"({"messages":[{"role":"user","content":"x"}]})"
                                                     "\n" +
                                                         line + "\n");
    const std::string message =
        message_of<DataError>([&] { prepare({.inputs = {path}, .out = folder / "out", .chat = "plain"}); });
    CHECK(message.starts_with(path + ":2: "));
    return message.substr(path.size() + 4);
  };
  const std::string no_object = "expected a JSON object on one line, found ";
  CHECK(refusal("{").starts_with(no_object + "broken JSON at column 2: syntax error"));
  CHECK(refusal("hello").starts_with(no_object + "broken JSON at column 1: syntax error"));
  CHECK(refusal("{}") == "field \"messages\": expected an array of messages, found none");
  CHECK(refusal(R"({"messages":[]})") == "field \"messages\": expected an array of messages, found an empty one");
  CHECK(refusal(R"({"messages":"x"})") == "field \"messages\": expected an array of messages, found string");
  CHECK(refusal(R"({"messages":["x"]})") == "field \"messages[0]\": expected an object, found string");
  CHECK(refusal(R"({"messages":[{"role":"user"}]})") == "field \"messages[0].content\": expected a string, found none");
  CHECK(refusal(R"({"messages":[{"role":"user","content":"x"},{"role":"tool","content":"x"}]})") ==
        "field \"messages[1].role\": expected one of system, user, assistant, found \"tool\"");
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
}

TEST_CASE("prepare: what has no effect in conversations is counted, as few names", "[data]") {
  const TempFolder folder;
  std::string text = R"({"messages":[{"role":"assistant","content":"x","a\n":1,"name":[null,{}]}]})"
                     "\n";
  for (int i = 0; i < 40; ++i)
    text += R"({"tools":["f"],"messages":[{"role":"assistant","content":"x","key)" + std::to_string(10 + i) +
            R"(":{"value":0}}]})"
            "\n";
  const std::string lines = folder.write("a.jsonl", text);
  const PrepareResult result = prepare({.inputs = {lines}, .out = folder / "out", .chat = "plain", .batch_bytes = 100});
  CHECK(result.unused_fields.size() == 32);
  CHECK(result.unused_fields.at("tools") == 40);
  CHECK(result.unused_fields.at("messages[].key10") == 1);
  CHECK(result.unused_fields.at("...") == 11);
}

TEST_CASE("packer: every token once, blocks in order, hardly any gaps", "[data]") {
  std::uint32_t x = 1;
  std::vector<Size> documents;
  Size tokens = 0;
  for (int i = 0; i < 5000; ++i) {
    x = x * 1664525u + 1013904223u;
    documents.push_back(1 + x % (i % 100 == 0 ? 1000 : 90));
    tokens += documents.back();
  }
  std::map<Size, Size> placed;  // by first token
  Size blocks = 0, before = -1, continued = 0;
  Packer packer(128, 50'000, [&](const Packer::Block& block, bool continues) {
    Size used = 0;
    for (const DocumentPiece& piece : block) {
      used += piece.tokens;
      CHECK(placed.emplace(piece.begin, piece.tokens).second);
    }
    REQUIRE(used <= 128);
    if (continues) CHECK((block.front().begin == before && block.front().continues));
    before = block.back().begin + block.back().tokens;
    ++blocks, continued += continues ? 1 : 0;
  });
  for (const Size length : documents) packer.add(length);
  packer.finish();
  Size next = 0;
  for (const auto& [begin, length] : placed) {
    CHECK(begin == next);
    next += length;
  }
  CHECK(next == tokens);
  CHECK(continued > 100);
  CHECK(static_cast<double>(blocks) < 1.01 * static_cast<double>(tokens) / 128 + 8);
}

TEST_CASE("prepare: packed blocks; the token behind a block is a target only where the block goes on", "[data]") {
  const TempFolder folder;
  const std::string tokenizer = folder.write("t.json", lt_test::byte_level_tokenizer(lt_test::kEndOfText));
  std::string text;
  for (const char* const document : {"abcde", "ABCDEFGHIJK", "xy", "z"})
    text += "{\"text\":\"" + std::string(document) + "\"}\n";
  const std::string lines = folder.write("a.jsonl", text), file = folder.write("b.txt", "rs");
  prepare({.inputs = {lines, file}, .tokenizer = tokenizer, .out = folder / "out", .val_fraction = 0, .pack = 8});
  const Tokens tokens = tokens_of(folder / "out/train.bin");
  // Lengths with their ends: 6, 12 = 8 + 4, 3, 2, 3. '#' is the end-of-text token, '.' is no target.
  CHECK(tokens.size() == 4 * 8 + 1);
  std::string plain;
  for (const std::int32_t token : tokens) plain += token == 300 ? '#' : static_cast<char>(token);
  CHECK(plain ==
        "abcde#z#ABCDEFGHIJK#xy##rs######"
        "#");
  CHECK(masked_text(tokens, mask_of(folder / "out/train.mask", tokens.size())) == ".bcde#z#.BCDEFGHIJK#xy#..s#......");

  prepare({.inputs = {lines, file},
           .tokenizer = tokenizer,
           .out = folder / "out",
           .val_fraction = 0.25,
           .pack = 8,
           .max_file_tokens = 20});
  CHECK(tokens_of(folder / "out/train.bin").size() == 2 * 8 + 1);
  CHECK(tokens_of(folder / "out/train-00001.bin").size() == 8 + 1);
  CHECK(tokens_of(folder / "out/val.bin").size() == 8 + 1);
  const Tokens second = tokens_of(folder / "out/train-00001.bin");
  CHECK(masked_text(second, mask_of(folder / "out/train-00001.mask", second.size())) == ".JK#xy#..");

  // The last piece of a cut document, behind another document.
  const std::string cut = folder.write("c.jsonl", "{\"text\":\"a\"}\n{\"text\":\"ABCDEFGHI\"}\n");
  prepare({.inputs = {cut}, .tokenizer = tokenizer, .out = folder / "cut", .val_fraction = 0, .pack = 8});
  const Tokens third = tokens_of(folder / "cut/train.bin");
  CHECK(masked_text(third, mask_of(folder / "cut/train.mask", third.size())) == ".#.#.....BCDEFGH.");
}
