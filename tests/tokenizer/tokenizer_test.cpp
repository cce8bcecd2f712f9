// The byte tokenizer, and the files that describe a tokenizer.
#include "libtrain/tokenizer/tokenizer.h"

#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"
#include "test_main/temp_folder.h"

using lt::DataError;
using lt::UsageError;
using lt_test::message_of;
using lt_test::TempFolder;

TEST_CASE("byte tokenizer: ids are the bytes", "[tokenizer]") {
  const auto byte = lt::make_tokenizer("byte");
  CHECK(byte->vocab() == 256);
  CHECK(byte->encode("Aé\n") == std::vector<std::uint32_t>{65, 195, 169, 10});
  std::string all;
  for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
  CHECK(byte->decode(byte->encode(all)) == all);
  CHECK(byte->decode({65, 256, 66}) ==
        "A\xEF\xBF\xBD"
        "B");
  CHECK(byte->encode("").empty());
}

TEST_CASE("make_tokenizer: reads back what to_json writes", "[tokenizer]") {
  const TempFolder folder;
  const std::string json = lt::make_tokenizer("byte")->to_json();
  CHECK(json == "{\"type\":\"byte\",\"vocab\":256}\n");
  CHECK(lt::make_tokenizer(folder.write("tokenizer.json", json))->to_json() == json);
  CHECK(lt::make_tokenizer(folder / "")->to_json() == json);
}

TEST_CASE("make_tokenizer: refuses other files by file and field", "[tokenizer]") {
  const TempFolder folder;
  const auto refusal = [&](std::string_view content) {
    const std::string path = folder.write("t.json", content);
    return message_of<DataError>([&] { lt::make_tokenizer(path); }).substr(path.size());
  };
  const std::string no_object = ": expected a JSON object, found ";
  CHECK(refusal("{").starts_with(no_object + "broken JSON at line 1, column 2: "));
  CHECK(refusal("").starts_with(no_object + "broken JSON at line 1, column 1: "));
  CHECK(refusal("[]") == no_object + "array");
  CHECK(refusal("{\"type\":" + std::string(300000, '[') + std::string(300000, ']') + "}") ==
        no_object + "JSON nested more than 32 levels deep");
  CHECK(refusal("{}") == ": expected a tokenizer.json, with a field \"model\", found none");
  CHECK(refusal(R"({"type":"char"})") == ": field \"type\": expected \"byte\", found \"char\"");
  CHECK(refusal(R"({"type":"byte","vocab":300})") == ": field \"vocab\": expected 256, found 300");
  CHECK(message_of<DataError>([&] { lt::make_tokenizer(folder / "none.json"); }) ==
        folder / "none.json: expected a readable file, found: No such file or directory");
  CHECK(message_of<UsageError>([] { lt::make_tokenizer("bpe"); }) ==
        "tokenizer: expected byte, a tokenizer.json or a folder that holds one, got \"bpe\"");
}
