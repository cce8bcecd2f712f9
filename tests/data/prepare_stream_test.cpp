// Inputs of prepare: compressed, in small batches, divided by separators; output files of a bounded length.
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <tuple>

#include "data/prepared.h"
#include "libtrain/data/prepare.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"

using lt::DataError;
using lt_test::message_of;
using lt_test::TempFolder;
using lt_test::tokens_of;

namespace {

std::string gzipped(const std::string& text) {
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&state, text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  deflate(&state, Z_FINISH);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

std::string zstd_compressed(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// Lines of words that hardly repeat.
std::string lines_of_words(std::size_t bytes) {
  std::string text;
  for (std::uint32_t i = 1, x = 1; text.size() < bytes; ++i) {
    x = x * 1664525u + 1013904223u;
    text += "the " + std::to_string(x) + (i % 9 == 0 ? "\n" : " other");
  }
  return text;
}

std::string json_line(const std::string& text) { return "{\"text\":\"" + text + "\"}\n"; }

}  // namespace

TEST_CASE("prepare: compressed files hold the same tokens, members and frames one after another", "[data]") {
  const TempFolder folder;
  const std::string text = lines_of_words(300'000), half = text.substr(0, 100'000), rest = text.substr(100'000);
  const auto tokens = [&](const std::string& name, const std::string& content) {
    const std::string path = folder.write(name, content);
    lt::prepare({.inputs = {path}, .out = folder / "out", .val_fraction = 0, .batch_bytes = 50'000});
    return tokens_of(folder / "out/train.bin");
  };
  const auto expected = tokens("a.txt", text);
  CHECK(expected.size() == text.size());
  CHECK(tokens("a.txt.gz", gzipped(half) + gzipped("") + gzipped(rest)) == expected);
  CHECK(tokens("a.txt.zst", zstd_compressed(half) + zstd_compressed(rest)) == expected);
  // Tapes and disks pad files with zeros.
  for (const std::size_t zeros : {1, 512, 200'000}) {
    CHECK(tokens("a.txt.gz", gzipped(half) + gzipped(rest) + std::string(zeros, '\0')) == expected);
    CHECK(tokens("a.txt.zst", zstd_compressed(text) + std::string(zeros, '\0')) == expected);
  }
  const std::string lines = json_line("one") + json_line("two");
  CHECK(tokens("b.jsonl.zst", zstd_compressed(lines)) == std::vector<std::int32_t>{'o', 'n', 'e', 't', 'w', 'o'});
  CHECK(tokens("b.jsonl.gz", gzipped(lines)) == std::vector<std::int32_t>{'o', 'n', 'e', 't', 'w', 'o'});
}

TEST_CASE("prepare: truncated and corrupt files are refused by file and offset", "[data]") {
  const TempFolder folder;
  const auto refusal = [&](const std::string& name, const std::string& content) {
    const std::string path = folder.write(name, content);
    const std::string message = message_of<DataError>([&] { lt::prepare({.inputs = {path}, .out = folder / "out"}); });
    CHECK(message.starts_with(path));
    return message.substr(path.size());
  };
  const std::string text = lines_of_words(50'000), gz = gzipped(text), zst = zstd_compressed(text);
  const auto half = [](const std::string& bytes) { return bytes.substr(0, bytes.size() / 2); };
  const auto truncated = [&](const std::string& kind, std::size_t offset) {
    return ": offset " + std::to_string(offset) + ": expected " + kind +
           " data, found the end of the file: it is truncated";
  };
  CHECK(refusal("a.gz", half(gz)) == truncated("gzip", gz.size() / 2));
  CHECK(refusal("a.gz", gz + gz.substr(0, 12)) == truncated("gzip", gz.size() + 12));
  CHECK(refusal("a.gz", "") == truncated("gzip", 0));
  for (const auto& [name, whole, kind] : {std::tuple{"a.gz", gz, "gzip"}, {"a.zst", zst, "zstd"}}) {
    const std::string junk = ": offset " + std::to_string(whole.size()) + ": expected " + kind +
                             " data, found bytes behind the end of the data";
    CHECK(refusal(name, whole + "JUNK") == junk);
    CHECK(refusal(name, whole + "J") == junk);
    CHECK(refusal(name, whole + std::string(200'000, '\0') + whole) == junk);
  }
  CHECK(refusal("a.gz", "plain text").find(": expected gzip data, found incorrect header check") != std::string::npos);
  std::string broken = gz;
  broken[broken.size() - 6] ^= 1;  // of the checksum
  CHECK(refusal("a.gz", broken).ends_with("expected gzip data, found incorrect data check"));
  CHECK(refusal("a.zst", half(zst)) == truncated("zstd", zst.size() / 2));
  CHECK(refusal("a.zst", "") == truncated("zstd", 0));
  CHECK(refusal("a.zst", "plain text").starts_with(": offset "));
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
}

TEST_CASE("prepare: input that begins as no text does is refused by what it is", "[data]") {
  const TempFolder folder;
  std::string tokenizer = folder.write("t.json", lt_test::byte_level_tokenizer(lt_test::kEndOfText));
  const auto refusal = [&](const std::string& name, const std::string& content) {
    const std::string path = folder.write(name, content),
                      expected = path + ": expected text in UTF-8 without bytes 0, found ";
    const std::string message = message_of<DataError>([&] {
      lt::prepare(
          {.inputs = {path}, .tokenizer = tokenizer, .out = folder / "out", .val_fraction = 0, .batch_bytes = 100});
    });
    return message.starts_with(expected) ? message.substr(expected.size()) : message;
  };
  const std::string text = lines_of_words(20'000);
  CHECK(refusal("a.txt", gzipped(text)) == "gzip data");
  CHECK(refusal("a.jsonl", zstd_compressed(text)) == "zstd data");
  CHECK(refusal("a.gz", gzipped(gzipped(text))) == "gzip data");
  const auto bytes = [](const char* begin, std::size_t size) { return std::string(begin, size) + "more"; };
  CHECK(refusal("a.txt.xz", bytes("\xfd\x37zXZ\0", 6)) == "xz data");
  CHECK(refusal("a.zip", bytes("PK\x03\x04", 4)) == "a zip archive");
  CHECK(refusal("a.parquet", bytes("PAR1\x15", 5)) == "a Parquet file");
  CHECK(refusal("a.txt", bytes("\xff\xfeh\0", 4)) == "text in UTF-16");
  CHECK(refusal("a.txt", bytes("\xfe\xff\0h", 4)) == "text in UTF-16");
  CHECK(refusal("a.txt", bytes("\xff\xfe\0\0", 4)) == "text in UTF-32");
  CHECK(refusal("a.txt", bytes("h\0i\0", 4)) == "a byte 0 at offset 1");
  CHECK_FALSE(std::filesystem::exists(folder / "out"));
  tokenizer = "byte";
  CHECK(refusal("a.jsonl", zstd_compressed(text)) == "zstd data");
  // Text may have other invalid bytes, and begin alike. To the tokenizer of bytes all files are such.
  for (const std::string& good :
       {std::string("caf\xe9"), std::string("PAR10"), std::string("PK"), text, gzipped(text)}) {
    CHECK(refusal("a.txt", good) == "no error was thrown");
    CHECK(tokens_of(folder / "out/train.bin").size() == good.size());
  }
}

TEST_CASE("prepare: endings of names count in either case, and .ndjson is .jsonl", "[data]") {
  const TempFolder folder;
  for (const char* const name : {"a.ndjson", "a.JSONL", "a.NDJSON", "a.JSONL.GZ", "a.ndjson.gz"}) {
    const std::string lines = json_line("one"), ending = std::string(name).substr(std::string(name).size() - 3);
    const bool is_compressed = ending == ".gz" || ending == ".GZ";
    const std::string path = folder.write(name, is_compressed ? gzipped(lines) : lines);
    lt::prepare({.inputs = {path}, .out = folder / "out", .val_fraction = 0});
    INFO(name);
    CHECK(tokens_of(folder / "out/train.bin") == std::vector<std::int32_t>{'o', 'n', 'e'});
  }
}

TEST_CASE("prepare: the tokens do not depend on the batches", "[data]") {
  const TempFolder folder;
  const std::string tokenizer = folder.write("t.json", lt_test::byte_level_tokenizer(lt_test::kEndOfText));
  std::string lines;
  for (int i = 0; i < 500; ++i)
    lines += json_line("the line " + std::to_string(i) + std::string(static_cast<std::size_t>(i), 'x'));
  std::string words = lines_of_words(20'000);  // longer than a batch
  std::ranges::replace(words, '\n', ' ');
  lines += json_line(words);
  const std::string text = folder.write("a.txt", lines_of_words(400'000)), json = folder.write("b.jsonl", lines);
  std::vector<std::int32_t> expected;
  for (const lt::Size batch : {16 << 20, 150'000, 1000}) {
    lt::prepare({.inputs = {text, json, text},
                 .tokenizer = tokenizer,
                 .out = folder / "out",
                 .val_fraction = 0,
                 .batch_bytes = batch});
    const auto tokens = tokens_of(folder / "out/train.bin");
    if (expected.empty()) expected = tokens;
    CHECK(tokens == expected);
  }
  CHECK(std::count(expected.begin(), expected.end(), 300) == 501);
}

TEST_CASE("prepare: a separator divides a text file into documents", "[data]") {
  const TempFolder folder;
  const std::string tokenizer = folder.write("t.json", lt_test::byte_level_tokenizer(lt_test::kEndOfText));
  const std::string text = folder.write("a.txt", "a\n--\n\n--\nthe\n--\n\n--b");
  for (const lt::Size batch : {1, 3, 1000}) {
    lt::prepare({.inputs = {text},
                 .tokenizer = tokenizer,
                 .out = folder / "out",
                 .val_fraction = 0,
                 .text_separator = "\n--\n",
                 .batch_bytes = batch});
    CHECK(tokens_of(folder / "out/train.bin") ==
          std::vector<std::int32_t>{'a', 300, 257, 300, '\n', '-', '-', 'b', 300});
  }
}

TEST_CASE("prepare: files of a bounded number of tokens; older ones are removed", "[data]") {
  const TempFolder folder;
  const std::string text = folder.write("a.txt", "0123456789abcdefghij");
  const auto names = [&](lt::Size most, double val) {
    lt::prepare({.inputs = {text}, .out = folder / "out", .val_fraction = val, .max_file_tokens = most});
    return lt_test::names_in(folder / "out");
  };
  using Names = std::vector<std::string>;
  CHECK(names(7, 0.5) == Names{"tokenizer.json", "train-00001.bin", "train.bin", "val-00001.bin", "val.bin"});
  std::vector<std::int32_t> all;
  for (const char* const name : {"train.bin", "train-00001.bin", "val.bin", "val-00001.bin"}) {
    const auto tokens = tokens_of(folder / ("out/" + std::string(name)));
    CHECK(tokens.size() <= 7);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  CHECK(std::string(all.begin(), all.end()) == "0123456789abcdefghij");
  folder.write("out/train-00001.mask", "old");
  folder.write("out/train-set.bin", "other");
  CHECK(names(100, 0) == Names{"tokenizer.json", "train-set.bin", "train.bin"});
}

TEST_CASE("prepare: an encoding of 32 bits only where a token needs it", "[data]") {
  const TempFolder folder;
  const std::string tokenizer = folder.write(
      "t.json",
      lt_test::byte_level_tokenizer(std::string(lt_test::kEndOfText) + R"(,{"id":66000,"content":"<|far|>"})"));
  const auto bytes = [&](const std::string& text) {
    lt::prepare(
        {.inputs = {folder.write("a.txt", text)}, .tokenizer = tokenizer, .out = folder / "out", .val_fraction = 0});
    return folder.read("out/train.bin").size();
  };
  CHECK(bytes("the") == 1024 + 2);
  CHECK(bytes("the<|far|>") == 1024 + 2 * 4);
  CHECK(tokens_of(folder / "out/train.bin") == std::vector<std::int32_t>{257, 66000});
}
