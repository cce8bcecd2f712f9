// Byte pair encoding: compared with fixtures of the tokenizers package, and its two ways of merging compared with each
// other.
#include "tokenizer/bpe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/whole_file.h"
#include "libtrain/kernels/random.h"
#include "libtrain/tokenizer/tokenizer.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::tokenizer;

namespace {

struct Lists {
  Bpe::Tokens tokens;
  Bpe::Merges merges;
};

// Every string of up to three of "abc" is a token, and all merges that make them are there, in a shuffled order.
Lists shuffled_lists(std::uint64_t seed) {
  Lists lists;
  const std::string letters = "abc";
  const auto add = [&](const std::string& token) {
    lists.tokens.emplace_back(token, static_cast<std::uint32_t>(lists.tokens.size()));
  };
  for (const char a : letters) {
    add({a});
    for (const char b : letters) {
      add({a, b});
      lists.merges.push_back({{a}, {b}});
      for (const char c : letters) {
        add({a, b, c});
        lists.merges.push_back({{a, b}, {c}});
        lists.merges.push_back({{a}, {b, c}});
      }
    }
  }
  for (std::size_t i = lists.merges.size(); i > 1; --i) {
    std::swap(lists.merges[i - 1], lists.merges[philox_word(seed, i) % i]);
  }
  return lists;
}

// By the definition.
std::vector<std::string> merged(const Bpe::Merges& merges, std::vector<std::string> word) {
  for (;;) {
    std::size_t best = merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
      for (std::size_t rank = 0; rank < best; ++rank) {
        if (merges[rank] == std::pair(word[i], word[i + 1])) best = rank, at = i;
      }
    }
    if (best == merges.size()) return word;
    word[at] += word[at + 1];
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

}  // namespace

TEST_CASE("tokenizer: ids and text are those of the tokenizers package", "[tokenizer]") {
  const auto fixtures = nlohmann::json::parse(io::read_whole_file("test", LT_FIXTURES));
  const auto text = fixtures.at("text").get<std::string>();
  CHECK(fixtures.at("cases").size() == 7);
  for (const auto& entry : fixtures.at("cases")) {
    INFO(entry.at("name").get<std::string>());
    const auto tokenizer = tokenizer_from_json(entry.at("tokenizer").dump(), "tokenizer.json");
    const auto ids = entry.at("ids").get<std::vector<std::uint32_t>>();
    CHECK(tokenizer->encode(text) == ids);
    CHECK(tokenizer->decode(ids) == entry.at("decoded").get<std::string>());
    CHECK(tokenizer->to_json() == entry.at("tokenizer").dump());
    CHECK(static_cast<Size>(*std::max_element(ids.begin(), ids.end())) < tokenizer->vocab());
    const std::vector<std::string_view> texts{text, "", text.substr(0, 0), text};
    const auto each = tokenizer->encode_each(texts);
    CHECK((each[0] == ids && each[1].empty() && each[3] == ids));
  }
}

TEST_CASE("bpe: words of any length are merged by the definition, whatever the order of merges", "[tokenizer]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Lists lists = shuffled_lists(seed);
    const Bpe bpe(lists.tokens, lists.merges, {.by_bytes = false});
    for (const std::uint64_t length : {1, 2, 7, 48, 49, 200}) {
      std::vector<std::string> word;
      std::string text;
      for (std::uint64_t i = 0; i < length; ++i) {
        word.push_back({"abc"[philox_word(seed * 1000 + length, i) % 3]});
        text += word.back();
      }
      std::vector<std::uint32_t> expected, ids;
      for (const std::string& token : merged(lists.merges, word)) expected.push_back(*bpe.find(token));
      bpe.encode(text, ids);
      INFO(text << " seed " << seed);
      CHECK(ids == expected);
    }
  }
}

TEST_CASE("bpe: what has no token becomes its bytes, or the unknown token, once where it is fused", "[tokenizer]") {
  Bpe::Tokens tokens{{"<unk>", 0}, {"a", 1}};
  const auto ids = [&](const BpeOptions& options) {
    std::vector<std::uint32_t> result;
    Bpe(tokens, {}, options).encode("a\u00e9\u00e8a", result);
    return result;
  };
  using Ids = std::vector<std::uint32_t>;
  CHECK(ids({.by_bytes = false, .unknown = 0}) == Ids{1, 0, 0, 1});
  CHECK(ids({.by_bytes = false, .unknown = 0, .fuse_unknown = true}) == Ids{1, 0, 1});
  CHECK(ids({.by_bytes = false}) == Ids{1, 1});
  tokens.insert(tokens.end(), {{"<0xC3>", 2}, {"<0xA9>", 3}});
  CHECK(ids({.by_bytes = false, .byte_fallback = true, .unknown = 0}) == Ids{1, 2, 3, 0, 1});  // <0xA8> is missing
}

TEST_CASE("tokenizer: a byte without a token is dropped, or becomes the unknown token", "[tokenizer]") {
  using Ids = std::vector<std::uint32_t>;  // as the tokenizers package has them
  const auto tokenizer = [](const std::string& model) {
    return tokenizer_from_json(
        R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE",)" + model +
            R"("vocab":{"a":97,"b":98,"u":117,"\u010a":10,"\u00c3":195,"\u010a\u010a":300},)" +
            R"("merges":["\u010a \u010a"]}})",
        "t.json");
  };
  const auto dropping = tokenizer("");
  CHECK(dropping->encode("a\r\n\r\nb\u00e9") == Ids{97, 10, 10, 98, 195});  // the white space before b is two words
  CHECK(dropping->encode("a\r\n\r\n") == Ids{97, 300});                     // merges cross what is dropped
  CHECK(tokenizer(R"("unk_token":"u",)")->encode("a\u00a9\u00e9") == Ids{97, 117, 117, 195, 117});
  CHECK(tokenizer(R"("unk_token":"u","fuse_unk":true,)")->encode("a\u00a9\u00e9") == Ids{97, 117, 195, 117});
  std::vector<std::size_t> begins;
  for (const TokenRange& range :
       dropping->encode_located("a\r\n\r\nb\u00e9", std::vector<std::size_t>{1, 2, 6, 7}).tokens)
    begins.push_back(range.begin);
  CHECK(begins == std::vector<std::size_t>{1, 1, 4, 5});
}

TEST_CASE("tokenizer: an unknown token waits for a character of the vocabulary; bytes pass it", "[tokenizer]") {
  using Ids = std::vector<std::uint32_t>;  // as the tokenizers package has them
  const auto tokenizer = [](const std::string& fused) {
    return tokenizer_from_json(R"({"model":{"type":"BPE","unk_token":"u","byte_fallback":true,"fuse_unk":)" + fused +
                                   R"(,"vocab":{"u":0,"a":1,"<0xC3>":2,"<0xA9>":3},"merges":[]}})",
                               "t.json");
  };
  const auto one_by_one = tokenizer("false"), fused = tokenizer("true");
  const std::string text = "\u00e8\u00e9\u00e8a";  // there is no <0xA8>
  CHECK(one_by_one->encode(text) == Ids{2, 3, 0, 0, 1});
  CHECK(fused->encode(text) == Ids{2, 3, 0, 1});
  CHECK(one_by_one->encode("\u00e8\u00e9") == Ids{2, 3, 0});
  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;
  Ranges ranges;
  const std::vector<std::size_t> positions{0, 2, 3, 4, 6};
  for (const TokenRange& range : one_by_one->encode_located(text, positions).tokens)
    ranges.emplace_back(range.begin, range.end);
  CHECK(ranges == Ranges{{2, 3}, {0, 1}, {1, 2}, {3, 4}, {4, 5}});
  // Nor is a text cut there.
  std::string words(100'000, 'a');
  for (int i = 0; i < 50'000; ++i) words += text.substr(0, 4) + "\n";
  Ids front;
  CHECK(one_by_one->encode_front(words, false, false, front) == 0);
}

TEST_CASE("tokenizer: unknown characters side by side become one token where they are fused", "[tokenizer]") {
  const auto ids = [](const std::string& fused) {
    return tokenizer_from_json(R"({"model":{"type":"BPE","unk_token":"u","fuse_unk":)" + fused +
                                   R"(,"vocab":{"u":0,"a":1},"merges":[]}})",
                               "t.json")
        ->encode("a\u65e5\u672ca");
  };
  CHECK(ids("true") == std::vector<std::uint32_t>{1, 0, 1});
  CHECK(ids("false") == std::vector<std::uint32_t>{1, 0, 0, 1});
}

TEST_CASE("bpe: text is cut between characters that no token has side by side", "[tokenizer]") {
  const Bpe bpe({{"a", 0}, {"b", 1}, {"ab", 2}}, {{"a", "b"}}, {.by_bytes = false});
  CHECK_FALSE(bpe.may_cut('a', 'b'));
  CHECK(bpe.may_cut('b', 'a'));
}

TEST_CASE("tokenizer: a character without a token is dropped; merges cross it, and no token holds it", "[tokenizer]") {
  const auto tokenizer =
      tokenizer_from_json(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}})", "t.json");
  using Ids = std::vector<std::uint32_t>;  // as the tokenizers package has them
  CHECK(tokenizer->encode("a\nb") == Ids{2});
  CHECK(tokenizer->encode("b\u65e5a") == Ids{1, 0});
  using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;
  const auto located = [&](std::string_view text, const std::vector<std::size_t>& positions) {
    Ranges ranges;
    for (const TokenRange& range : tokenizer->encode_located(text, positions).tokens) {
      ranges.emplace_back(range.begin, range.end);
    }
    return ranges;
  };
  CHECK(located("a\nb", {0, 1, 2, 3}) == Ranges{{0, 1}, {0, 1}, {0, 1}});  // there is no position 3
  CHECK(located("\nb\na\n", {0, 1, 2, 3, 4}) == Ranges{{0, 0}, {0, 1}, {1, 1}, {1, 2}, {2, 2}});
  CHECK(located("\n", {0}) == Ranges{{0, 0}});
}
