// prepare writes the tokens of all files in order, splits them at the end, and leaves no partial file.
#include "libtrain/data/prepare.h"

#include <filesystem>

#include "data/prepared.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"
#include "test_main/temp_folder.h"

using lt::DataError;
using lt::UsageError;
using lt_test::message_of;
using lt_test::TempFolder;

namespace {

std::string text_of(const std::string& path) {
  const std::vector<std::int32_t> tokens = lt_test::tokens_of(path);
  return {tokens.begin(), tokens.end()};
}

std::size_t entries(const std::string& folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("prepare: files one after another, the last tenth for validation", "[data]") {
  const TempFolder folder;
  const std::string a = folder.write("a.txt", "0123456789ab"), b = folder.write("b.txt", "cdefghijk");
  const auto result = lt::prepare({.inputs = {a, b}, .out = folder / "out/deep"});
  CHECK(result.files == 2);
  CHECK(result.bytes == 21);
  CHECK(result.train_tokens == 19);
  CHECK(result.val_tokens == 2);
  CHECK(text_of(folder / "out/deep/train.bin") == "0123456789abcdefghi");
  CHECK(text_of(folder / "out/deep/val.bin") == "jk");
  CHECK(folder.read("out/deep/tokenizer.json") == "{\"type\":\"byte\",\"vocab\":256}\n");
  CHECK(entries(folder / "out/deep") == 3);
}

TEST_CASE("prepare: the fraction is a share of the tokens, 0 leaves no val.bin", "[data]") {
  const TempFolder folder;
  const std::string text = folder.write("a.txt", std::string(100, 'x'));
  const auto val = [&](double fraction) {
    return lt::prepare({.inputs = {text}, .out = folder / "out", .val_fraction = fraction}).val_tokens;
  };
  CHECK(val(0.29) == 29);  // 0.29 * 100 is 28.999999999999996
  CHECK(val(0.999) == 99);
  CHECK(val(0) == 0);
  CHECK_FALSE(std::filesystem::exists(folder / "out/val.bin"));  // not that of the call before either
  CHECK(text_of(folder / "out/train.bin").size() == 100);
}

TEST_CASE("prepare: the text field of JSON lines", "[data]") {
  const TempFolder folder;
  const std::string lines = folder.write("a.jsonl", "{\"text\":\"one\\n\"}\r\n\n  \n{\"id\":4,\"text\":\"tw\\u00f6\"}");
  const auto result = lt::prepare({.inputs = {lines}, .out = folder / "out", .val_fraction = 0});
  CHECK(text_of(folder / "out/train.bin") == "one\ntw\xC3\xB6");
  CHECK(result.bytes == 8);
}

TEST_CASE("prepare: documents of a tokenizer with an end-of-text token end with it", "[data]") {
  const TempFolder folder;
  const auto tokenizer = [&](const std::string& added) {
    return folder.write("t.json", lt_test::byte_level_tokenizer(added));
  };
  const std::string lines = folder.write("a.jsonl", "{\"body\":\"the a\"}\n{\"body\":\"a\"}\n"),
                    text = folder.write("b.txt", "the");
  const std::string with = tokenizer(lt_test::kEndOfText);
  lt::prepare({.inputs = {lines, text}, .tokenizer = with, .out = folder / "out", .val_fraction = 0, .field = "body"});
  CHECK(lt_test::tokens_of(folder / "out/train.bin") == std::vector<std::int32_t>{257, ' ', 'a', 300, 'a', 300, 257});
  const std::string without = tokenizer("");
  CHECK(message_of<UsageError>([&] {
          lt::prepare({.inputs = {lines}, .tokenizer = without, .out = folder / "out", .field = "body"});
        }) == "tokenizer: expected a token that ends documents, found none in " + without);
  CHECK(lt::prepare({.inputs = {text}, .tokenizer = without, .out = folder / "out", .val_fraction = 0}).train_tokens ==
        1);
}

TEST_CASE("prepare: half a surrogate pair in a JSON string becomes U+FFFD", "[data]") {
  const TempFolder folder;
  const auto text = [&](const std::string& escaped) {
    const std::string lines = folder.write("a.jsonl", "{\"text\":\"" + escaped + "\"}\n");
    lt::prepare({.inputs = {lines}, .out = folder / "out", .val_fraction = 0});
    return text_of(folder / "out/train.bin");
  };
  const std::string gap = "\xEF\xBF\xBD";
  CHECK(text("a\\ud83db") == "a" + gap + "b");
  CHECK(text("\\uDE00\\ud83d") == gap + gap);
  CHECK(text("\\ud83d\\ud83d\\ude00\\ude00") == gap + "\xF0\x9F\x98\x80" + gap);
  CHECK(text("\\\\ud83d \\ud83d\\n\\u00e9") == "\\ud83d " + gap + "\n\xC3\xA9");
  CHECK_THROWS_AS(text("\\ud83d\\u00"), DataError);
}

TEST_CASE("prepare: fields of JSON lines that are not read may hold any number and many levels", "[data]") {
  const TempFolder folder;
  const std::string levels = std::string(999, '[') + std::string(999, ']');
  std::string lines;
  for (const std::string& value : {std::string("NaN"), std::string("-Infinity"),
                                   std::string("[Infinity, -1e999,1e-999]"), "1" + std::string(400, '0'), levels}) {
    lines += "{\"text\":\"A\",\"score\":" + value + "}\n";
  }
  lines += "{\"score\":NaN,\"text\":\"NaN \\\"1e999\\\" \\ud83d\"}\n";
  lt::prepare({.inputs = {folder.write("a.jsonl", lines)}, .out = folder / "out", .val_fraction = 0});
  CHECK(text_of(folder / "out/train.bin") == "AAAAANaN \"1e999\" \xEF\xBF\xBD");
}

TEST_CASE("prepare: broken JSON lines are refused by file, line and field", "[data]") {
  const TempFolder folder;
  std::string hint;
  const auto refusal = [&](std::string_view content) {
    const std::string path = folder.write("a.jsonl", content);
    const std::string message = message_of<DataError>([&] {
      try {
        lt::prepare({.inputs = {path}, .out = folder / "out"});
      } catch (const DataError& e) {
        hint = e.hint();
        throw;
      }
    });
    CHECK(message.starts_with(path));
    return message.substr(path.size());
  };
  const std::string broken = "expected a JSON object on one line, found broken JSON";
  CHECK(refusal("{\"text\":\"x\"}\n{\"text\":").starts_with(":2: " + broken + " at column 9: syntax error"));
  CHECK(refusal("{\"text\":\"\\ud83d\",\"a\":nan}").starts_with(":1: " + broken + " at column 23: syntax error"));
  CHECK(refusal("{\"a\":-Infinity,\"b\":1e400,\"text\":\"x\",}")
            .starts_with(":1: " + broken + " at column 37: syntax error"));
  CHECK(refusal("{\"text\":NaN}") == ":1: field \"text\": expected a string, found array");
  CHECK(refusal("{\"text\":" + std::string(1000, '[') + std::string(1000, ']') + "}") ==
        ":1: expected a JSON object on one line, found JSON nested more than 1000 levels deep");
  CHECK(refusal("{\"text\":\"x\",}").starts_with(":1: " + broken + " at column 13: syntax error"));
  CHECK(hint.empty());
  CHECK(
      refusal("[{\"text\":\"x\"},\n{\"text\":\"x\"}]\n").starts_with(":1: " + broken + " at column 15: syntax error"));
  CHECK(hint == "JSON lines are objects, one a line: `jq -c '.[]' FILE` writes those of an array so");
  CHECK(refusal("{\"text\":\"x\"}\n{\"text\":\"\"}") == ":2: field \"text\": expected text, found an empty document");
  CHECK(refusal("[1]\n") == ":1: expected a JSON object on one line, found array");
  CHECK(refusal("\n{\"txt\":\"x\"}\n") == ":2: field \"text\": expected a string, found none");
  CHECK(refusal("{\"text\":[\"x\"]}\n") == ":1: field \"text\": expected a string, found array");
  CHECK(refusal("{\"text\":\"\xe9\"}\n") ==
        ":1: expected a JSON object on one line, found bytes that are not UTF-8, 0xe9 at column 10");
  CHECK(refusal("") == ": expected text, found none");
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
}

TEST_CASE("prepare: a failure leaves what stood before and nothing beside it", "[data]") {
  const TempFolder folder;
  const std::string text = folder.write("a.txt", "first text, long enough");
  lt::prepare({.inputs = {text}, .out = folder / "out"});
  const std::string before = folder.read("out/train.bin");
  CHECK(message_of<DataError>([&] {
          lt::prepare({.inputs = {text, folder / "none.txt"}, .out = folder / "out"});
        }) == folder / "none.txt: expected a readable file, found: No such file or directory");
  CHECK(message_of<DataError>([&] { lt::prepare({.inputs = {folder / "out"}, .out = folder / "out"}); }) ==
        folder / "out: expected a readable file, found: a folder");
  CHECK(folder.read("out/train.bin") == before);
  CHECK(entries(folder / "out") == 3);

  // val.bin cannot be replaced because a folder has its name.
  std::filesystem::remove(folder / "out/val.bin");
  std::filesystem::create_directories(folder / "out/val.bin/x");
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = folder / "out"}), DataError);
  CHECK(entries(folder / "out") == 4);  // and prepare.tmp, from which the next call goes on
  std::filesystem::remove_all(folder / "out/val.bin");
  CHECK(lt::prepare({.inputs = {text}, .out = folder / "out"}).resumed);
  CHECK(entries(folder / "out") == 3);

  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = text + "/out"}), DataError);
}

TEST_CASE("prepare: wrong options", "[data]") {
  const TempFolder folder;
  const std::string text = folder.write("a.txt", "text");
  CHECK_THROWS_AS(lt::prepare({.inputs = {}, .out = folder / "out"}), UsageError);
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = ""}), UsageError);
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = folder / "out", .val_fraction = 1}), UsageError);
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = folder / "out", .val_fraction = -0.1}), UsageError);
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = folder / "out", .text_separator = ""}), UsageError);
  const std::string lines = folder.write("a.jsonl", "{\"text\": \"x\"}");
  CHECK(message_of<UsageError>([&] {
          lt::prepare({.inputs = {lines}, .out = folder / "out", .text_separator = "--"});
        }) == "text-separator: has no effect on JSON lines, and " + lines + " has nothing else");
  CHECK(lt::prepare({.inputs = {lines, text}, .out = folder / "out", .text_separator = "--"}).train_tokens > 0);
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = folder / "out", .pack = -1}), UsageError);
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = folder / "out", .max_file_tokens = 0}), UsageError);
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = folder / "out", .batch_bytes = 0}), UsageError);
  CHECK(message_of<UsageError>([&] { lt::prepare({.inputs = {text}, .out = folder / "out", .pack = 4}); }) ==
        "pack: expected a tokenizer with a token that ends documents, which fills blocks, found none in byte");
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = folder / "out", .chat = "alpaca"}), UsageError);
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .out = folder / "out", .field = "x", .chat = "plain"}), UsageError);
  CHECK_THROWS_AS(lt::prepare({.inputs = {text}, .tokenizer = "bpe", .out = folder / "out"}), UsageError);
}

TEST_CASE("prepare: the files beside a tokenizer.json are copied as they are", "[data]") {
  const TempFolder folder;
  const std::string text = folder.write("a.txt", "the a");
  std::filesystem::create_directories(folder / "model/additional_chat_templates");
  const std::pair<const char*, std::string> files[] = {
      {"tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}"},
      {"chat_template.jinja", "{{ messages }}\r\n"},
      {"additional_chat_templates/tool.jinja", "{{ tools }}"},
      {"tokenizer.model", std::string("\x0a\xff\x00\x01", 4)}};
  for (const auto& [name, bytes] : files) folder.write(std::string("model/") + name, bytes);
  folder.write("model/config.json", "{}");
  folder.write("model/notes.txt", "");
  const std::string json = folder.write("model/tokenizer.json", lt_test::byte_level_tokenizer(""));
  const auto prepare = [&](const std::string& tokenizer, const char* out) {
    lt::prepare({.inputs = {text}, .tokenizer = tokenizer, .out = folder / out, .val_fraction = 0});
    return lt_test::names_in(folder / out);
  };
  using Names = std::vector<std::string>;
  for (int call = 0; call < 2; ++call) {
    CHECK(prepare(json, "out") == Names{"additional_chat_templates", "chat_template.jinja", "tokenizer.json",
                                        "tokenizer.model", "tokenizer_config.json", "train.bin"});
    for (const auto& [name, bytes] : files) CHECK(folder.read(std::string("out/") + name) == bytes);
  }
  CHECK(prepare(folder / "out/tokenizer.json", "out").size() == 6);  // from where they are
  CHECK(prepare(folder / "model", "out").size() == 6);
  CHECK(prepare("byte", "bytes") == Names{"tokenizer.json", "train.bin"});
  // A file of another name is no folder of a model, and what the earlier tokenizer left is not its own.
  const std::string alone = folder.write("model/alone.json", lt_test::byte_level_tokenizer(""));
  CHECK(prepare(alone, "alone") == Names{"tokenizer.json", "train.bin"});
  const auto refused = [&](const std::string& tokenizer, const std::string& file) {
    CHECK(message_of<UsageError>([&] { prepare(tokenizer, "out"); }) ==
          "out: " + (folder / "out") + "/" + file + ": expected no file of another tokenizer than " + tokenizer +
              ", found one");
  };
  refused(alone, "additional_chat_templates/tool.jinja");
  refused("byte", "additional_chat_templates/tool.jinja");
  folder.write("model/chat_template.jinja", "{{ others }}");
  refused(json, "chat_template.jinja");
  CHECK(folder.read("out/chat_template.jinja") == files[1].second);
}

TEST_CASE("prepare: a tokenizer.json without tokens beside it is not written over", "[data]") {
  const TempFolder folder;
  const std::string text = folder.write("a.txt", "the a");
  std::filesystem::create_directories(folder / "out");
  const std::string json = lt_test::byte_level_tokenizer("");
  const std::string path = folder.write("out/tokenizer.json", json);
  const auto prepare = [&](const std::string& tokenizer) {
    lt::prepare({.inputs = {text}, .tokenizer = tokenizer, .out = folder / "out"});
  };
  CHECK(message_of<UsageError>([&] { prepare("byte"); }) ==
        "out: " + path + ": expected no file of another tokenizer than byte, found one");
  CHECK(folder.read("out/tokenizer.json") == json);
  prepare(path);
  prepare("byte");  // with the tokens of the earlier call
  CHECK(folder.read("out/tokenizer.json") != json);
}
