// Token files read back as written. Anything that is not a whole token file is refused by name and offset.
#include <filesystem>
#include <numeric>

#include "libtrain/data/data.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"
#include "test_main/temp_folder.h"

using Catch::Matchers::EndsWith;
using lt::DataError;
using lt::TokenFile;
using lt::TokenFormat;
using lt_test::message_of;
using lt_test::TempFolder;

namespace {

std::string little_endian(std::initializer_list<std::int64_t> values, int width) {
  std::string bytes;
  for (const std::int64_t value : values) {
    for (int b = 0; b < width; ++b) bytes += static_cast<char>(value >> (8 * b));
  }
  return bytes;
}

std::string header(std::int64_t magic, std::int64_t version, std::int64_t count) {
  std::string bytes = little_endian({magic, version, count}, 4);
  bytes.resize(1024, '\0');
  return bytes;
}

std::vector<std::int32_t> all_of(const TokenFile& file) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.tokens()));
  file.read(0, file.tokens(), tokens.data());
  return tokens;
}

// The error message for a file with this content.
std::string refusal(std::string_view content, TokenFormat format = TokenFormat::automatic) {
  const TempFolder folder;
  const std::string path = folder.write("x.bin", content);
  const std::string message = message_of<DataError>([&] { TokenFile(path, format); });
  CHECK(message.starts_with(path + ": offset "));
  return message.substr(std::min(message.size(), path.size() + 2));
}

}  // namespace

TEST_CASE("write_token_file: the bytes of llm.c, uint16 where all tokens fit", "[data]") {
  const TempFolder folder;
  lt::write_token_file(folder / "a.bin", {1, 256, 65535});
  CHECK(folder.read("a.bin") == header(20240520, 1, 3) + little_endian({1, 256, 65535}, 2));
  CHECK(all_of(TokenFile(folder / "a.bin", TokenFormat::automatic)) == std::vector<std::int32_t>{1, 256, 65535});

  lt::write_token_file(folder / "b.bin", {1, 65536, 128255});
  CHECK(folder.read("b.bin") == header(20240801, 7, 3) + little_endian({1, 65536, 128255}, 4));
  CHECK(all_of(TokenFile(folder / "b.bin", TokenFormat::automatic)) == std::vector<std::int32_t>{1, 65536, 128255});
}

TEST_CASE("write_token_file: many tokens, and nothing left beside", "[data]") {
  const TempFolder folder;
  std::vector<std::uint32_t> tokens(600001);  // more than two chunks of the writer
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint32_t>(i * 7 % 50000);
  lt::write_token_file(folder / "a.bin", tokens);
  const TokenFile file(folder / "a.bin", TokenFormat::automatic);
  const auto back = all_of(file);
  CHECK(std::equal(tokens.begin(), tokens.end(), back.begin(), back.end()));
  const std::filesystem::directory_iterator entries(folder / "");
  CHECK(std::distance(begin(entries), end(entries)) == 1);

  CHECK_THROWS_AS(lt::write_token_file(folder / "none/a.bin", tokens), DataError);
}

TEST_CASE("TokenFile: raw16 is uint16 without a header", "[data]") {
  const TempFolder folder;
  const TokenFile file(folder.write("raw.bin", little_endian({7, 50256, 0}, 2)), TokenFormat::raw16);
  CHECK(all_of(file) == std::vector<std::int32_t>{7, 50256, 0});
  std::int32_t middle = 0;
  file.read(1, 1, &middle);
  CHECK(middle == 50256);
  CHECK_THROWS_AS(file.read(2, 2, &middle), lt::InternalError);
}

TEST_CASE("TokenFile: refuses what is no whole token file", "[data]") {
  const std::string body = little_endian({1, 2, 3, 4}, 2);
  CHECK(refusal("") == "offset 0: expected tokens, found an empty file");
  CHECK(refusal("To be, or not") ==
        "offset 0: expected magic number 20240520 (uint16) or 20240801 (uint32), found 1646292820");
  CHECK(refusal("ab") == "offset 2: expected a header of 1024 bytes, found 2 bytes");
  CHECK(refusal(header(20240520, 1, 4).substr(0, 1000)) ==
        "offset 1000: expected a header of 1024 bytes, found 1000 bytes");
  CHECK(refusal(header(20240520, 2, 4) + body) == "offset 4: expected version 1 with magic number 20240520, found 2");
  CHECK(refusal(header(20240801, 1, 2) + body) == "offset 4: expected version 7 with magic number 20240801, found 1");
  CHECK(refusal(header(20240520, 1, -4) + body) == "offset 8: expected a token count of at least 0, found -4");
  CHECK(refusal(header(20240520, 1, 5) + body) ==
        "offset 1032: expected 1034 bytes for 5 tokens, found 1032 bytes: the file is truncated");
  CHECK(refusal(header(20240520, 1, 3) + body) ==
        "offset 1030: expected 1030 bytes for 3 tokens, found 1032 bytes: there are trailing bytes");
  CHECK(refusal("abc", TokenFormat::raw16) == "offset 2: expected whole uint16 tokens, found 3 bytes");
}

TEST_CASE("TokenFile: the mask beside it says which tokens are targets", "[data]") {
  const TempFolder folder;
  lt::write_token_file(folder / "a.bin", std::vector<std::uint32_t>(19, 7));
  const auto with_mask = [&](const std::string& bits) {
    folder.write("a.mask", header(20261124, 1, 19) + bits);
    return TokenFile(folder / "a.bin", TokenFormat::automatic);
  };
  const auto targets = [](const TokenFile& file, lt::Size begin, lt::Size count) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count), 5);
    file.ignore_masked(begin, count, values.data());
    return values;
  };
  CHECK_FALSE(TokenFile(folder / "a.bin", TokenFormat::automatic).has_mask());
  CHECK(targets(TokenFile(folder / "a.bin", TokenFormat::automatic), 0, 2) == std::vector<std::int32_t>{5, 5});

  // Tokens 0, 7, 8 and 17 count, and the bits after the last token say nothing.
  const TokenFile file = with_mask("\x81\x01\xfa");
  CHECK(file.has_mask());
  const std::int32_t no = lt::kIgnoredTarget;
  CHECK(targets(file, 0, 19) ==
        std::vector<std::int32_t>{5, no, no, no, no, no, no, 5, 5, no, no, no, no, no, no, no, no, 5, no});
  CHECK(targets(file, 7, 3) == std::vector<std::int32_t>{5, 5, no});
  CHECK(targets(file, 16, 3) == std::vector<std::int32_t>{no, 5, no});
  CHECK(targets(file, 19, 0).empty());
  CHECK(all_of(file) == std::vector<std::int32_t>(19, 7));
  CHECK_THROWS_AS(targets(file, 18, 2), lt::InternalError);

  const auto refusal = [&](const std::string& content) {
    folder.write("a.mask", content);
    return message_of<DataError>([&] { TokenFile(folder / "a.bin", TokenFormat::automatic); });
  };
  const std::string at = folder / "a.mask: offset ", bits = "abc";
  CHECK(refusal(header(20240520, 1, 19) + bits) == at + "0: expected magic number 20261124, found 20240520");
  CHECK(refusal(header(20261124, 2, 19) + bits) == at + "4: expected version 1, found 2");
  CHECK(refusal(header(20261124, 1, 18) + bits) == at + "8: expected token count 19, as in the token file, found 18");
  CHECK(refusal(header(20261124, 1, 19) + "ab") ==
        at + "1026: expected 1027 bytes for 19 bits, found 1026 bytes: the file is truncated");
  CHECK(refusal(header(20261124, 1, 19) + "abcd") ==
        at + "1027: expected 1027 bytes for 19 bits, found 1028 bytes: there are trailing bytes");
  CHECK(refusal("short") == at + "5: expected a header of 1024 bytes, found 5 bytes");
  std::filesystem::remove(folder / "a.mask");
  std::filesystem::create_directory(folder / "a.mask");
  CHECK_THAT(message_of<DataError>([&] { TokenFile(folder / "a.bin", TokenFormat::automatic); }),
             EndsWith("a.mask: expected a regular file, found a folder"));
  std::filesystem::remove(folder / "a.mask");
  std::filesystem::create_symlink("gone.mask", folder / "a.mask");  // not every token is a target
  CHECK_THAT(message_of<DataError>([&] { TokenFile(folder / "a.bin", TokenFormat::automatic); }),
             EndsWith("a.mask: expected a file or folder, found a link to gone.mask, which is not there"));
}

TEST_CASE("TokenFile: refuses what cannot be read", "[data]") {
  const TempFolder folder;
  const auto open = [&](const std::string& name) {
    return message_of<DataError>([&] { TokenFile(folder / name, TokenFormat::automatic); });
  };
  CHECK_THAT(open("none.bin"), EndsWith("none.bin: expected a readable token file, found: No such file or directory"));
  std::filesystem::create_directory(folder / "sub");
  CHECK_THAT(open("sub"), EndsWith("sub: expected a regular file, found a folder"));
  folder.write("secret.bin", "x");
  std::filesystem::permissions(folder / "secret.bin", std::filesystem::perms::none);
  if (::geteuid() != 0) {
    CHECK_THAT(open("secret.bin"), EndsWith("secret.bin: expected a readable token file, found: Permission denied"));
  }
}

TEST_CASE("TokenFile: a file that shrinks while it is in use is an error and no signal", "[data]") {
  const TempFolder folder;
  lt::write_token_file(folder / "a.bin", std::vector<std::uint32_t>(10000, 3));
  const TokenFile file(folder / "a.bin", TokenFormat::automatic);
  std::filesystem::resize_file(folder / "a.bin", 2000);
  std::int32_t token = 0;
  const std::string expected =
      folder / "a.bin: offset 2000: the file changed while it was in use: expected 21024 bytes, found 2000";
  CHECK(message_of<DataError>([&] { file.read(9000, 1, &token); }) == expected);
  CHECK(message_of<DataError>([&] { file.require_below(3, 0, 10000); }) == expected);
}

TEST_CASE("TokenFile: finds the first token beyond the vocabulary in its part", "[data]") {
  const TempFolder folder;
  std::vector<std::uint32_t> tokens(200000, 99);
  tokens[70001] = 100, tokens[150000] = 65536;
  lt::write_token_file(folder / "wide.bin", tokens);
  const TokenFile wide(folder / "wide.bin", TokenFormat::automatic);
  const auto scan = [](const TokenFile& file, lt::Size vocab, lt::Size begin, lt::Size end) {
    return message_of<DataError>([&] { file.require_below(vocab, begin, end); });
  };
  CHECK(scan(wide, 100, 0, 200000) ==
        folder /
            "wide.bin: offset 281028: expected a token below the vocabulary 100, found 100 "
            "(token number 70001)");
  CHECK(scan(wide, 65536, 0, 200000) == folder /
                                            "wide.bin: offset 601024: expected a token below the vocabulary 65536, "
                                            "found 65536 (token number 150000)");
  CHECK(scan(wide, 100, 0, 70001) == "no error was thrown");
  CHECK(scan(wide, 100, 70002, 150000) == "no error was thrown");
  CHECK(scan(wide, 65537, 0, 200000) == "no error was thrown");
  for (const lt::Size vocab : {lt::Size{100}, lt::Size{1} << 33}) {
    CHECK_THROWS_AS(wide.require_below(vocab, 0, 200001), lt::InternalError);
    CHECK_THROWS_AS(wide.require_below(vocab, -1, 1), lt::InternalError);
  }

  tokens[150000] = 0;
  lt::write_token_file(folder / "narrow.bin", tokens);
  CHECK(scan(TokenFile(folder / "narrow.bin", TokenFormat::automatic), 100, 0, 200000) ==
        folder /
            "narrow.bin: offset 141026: expected a token below the vocabulary 100, found 100 (token number 70001)");
}

TEST_CASE("TokenFile: a digest stands for the bytes of file and mask, wherever they are", "[data]") {
  const TempFolder folder;
  std::vector<std::uint32_t> tokens(200'000, 3);
  const auto digest = [&](const std::string& name) {
    lt::write_token_file(folder / name, tokens);
    return TokenFile(folder / name, TokenFormat::automatic).digest();
  };
  const std::string before = digest("a.bin");
  CHECK(before.size() == 16);
  CHECK(digest("b.bin") == before);
  for (const std::size_t place : {std::size_t{0}, std::size_t{199'999}, std::size_t{13'400}}) {
    tokens[place] = 4;  // in the head, the tail and the first sample
    CHECK(digest("b.bin") != before);
    tokens[place] = 3;
  }
  tokens.push_back(3);
  CHECK(digest("b.bin") != before);
  lt::write_token_file(folder / "tiny.bin", {1, 2});
  CHECK(TokenFile(folder / "tiny.bin", TokenFormat::automatic).digest().size() == 16);
}
