// The text side of tokenizers: patterns, normalization, repair of invalid bytes, added tokens, streams of tokens.
#include <nlohmann/json.hpp>

#include "io/utf8.h"
#include "io/whole_file.h"
#include "kernels/threads.h"
#include "libtrain/error.h"
#include "libtrain/tokenizer/tokenizer.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/normalize.h"
#include "tokenizer/regex.h"
#include "tokenizer/same_tokenizer.h"

using namespace lt;
using namespace lt::tokenizer;
using lt_test::message_of;

namespace {

std::unique_ptr<Tokenizer> fixture(const std::string& name) {
  const auto fixtures = nlohmann::json::parse(io::read_whole_file("test", LT_FIXTURES));
  for (const auto& entry : fixtures.at("cases")) {
    if (entry.at("name") == name) return tokenizer_from_json(entry.at("tokenizer").dump(), name);
  }
  FAIL("no fixture " << name);
  return nullptr;
}

struct EncodedPieces {
  Tokenizer::Ids ids;
  std::size_t most_left = 0;  // bytes that had to wait for what follows
};

// Encodes a text that comes piece by piece.
EncodedPieces encode_in_pieces(const Tokenizer& tokenizer, std::string_view text, std::size_t piece) {
  EncodedPieces pieces;
  std::size_t done = 0;
  for (std::size_t end = piece; done < text.size(); end += piece) {
    end = std::min(end, text.size());
    done += tokenizer.encode_front(text.substr(done, end - done), done > 0, end == text.size(), pieces.ids);
    pieces.most_left = std::max(pieces.most_left, end - done);
  }
  return pieces;
}

std::vector<std::string> pieces(const AddedTokens& added, std::string_view text) {
  std::vector<std::string> found;
  for (const Section& section : added.find(text)) {
    found.push_back((section.token != nullptr ? std::to_string(section.token->id) + ":" : "") +
                    std::string(section.text));
  }
  return found;
}

}  // namespace

TEST_CASE("utf8: invalid sequences become U+FFFD, one for each longest part of a character", "[tokenizer]") {
  const std::string bad = "\xEF\xBF\xBD";
  // Unicode 15, tables 3-8 to 3-11; Python's errors="replace" gives the same.
  CHECK(io::repaired_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") ==
        bad + bad + bad + bad + bad + bad + bad + bad + "A");
  CHECK(io::repaired_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") ==
        bad + bad + bad + bad + bad + bad + bad + bad + "A");
  CHECK(io::repaired_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") ==
        bad + bad + bad + bad + bad + "A" + bad + bad + "B");
  CHECK(io::repaired_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == bad + bad + bad + bad + "A");
  CHECK(io::repaired_utf8("a\xE2\x82") == "a" + bad);
  CHECK(io::repaired_utf8("\u00e9\u20ac\U0001F600") == "\u00e9\u20ac\U0001F600");
}

TEST_CASE("byte alphabet: every byte has one character", "[tokenizer]") {
  CHECK(bytes_of_alphabet("\u0120a\u010a") == " a\n");
  CHECK(bytes_of_alphabet("\u0100\u0143") == std::string("\0\xad", 2));
  CHECK_FALSE(bytes_of_alphabet("a b"));
  CHECK_FALSE(bytes_of_alphabet("\u0144"));
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  CHECK(bytes_of_alphabet(written_in_alphabet(all)) == all);
}

TEST_CASE("regex: Unicode's white space, and errors that name the pattern", "[tokenizer]") {
  Regex::Matcher spaces(Regex("\\s+"));
  for (const char* const space : {" ", "\t", "\u0085", "\u00a0", "\u2003", "\u2028", "\u3000"}) {
    const auto match = spaces.find(space, 0);
    REQUIRE(match);
    CHECK(match->end == std::string(space).size());
  }
  for (const char* const other : {"\u180e", "\u200b", "x"}) CHECK_FALSE(spaces.find(other, 0));
  Regex::Matcher no_space(Regex("[^\\s]\\S"));
  CHECK_FALSE(no_space.find("a b c", 0));
  CHECK(no_space.find("a bc", 0)->begin == 2);
  CHECK(message_of<UsageError>([] { Regex("a(b"); }) ==
        "pattern \"a(b\": expected a regular expression, found at offset 3: missing closing parenthesis");
}

TEST_CASE("regex: what other libraries read differently is refused", "[tokenizer]") {
  for (const char* const pattern :
       {"\\w+",    "a\\b",    "\\h",     "[\\S]",   "^a",      "a$",        "[a&&b]",      "\\p{N}{1,3}+",
        "[a[^b]]", "[a-[b]]", "[a[-b]]", "[[a-]b]", "[[a]-b]", "[a[b[c]]]", "[[:alpha:]]", "[a[]]",
        "a{2}?",   "\\d{2}?", "a{,3}",   "(?m:.)",  "(?i-m)a", "\\p{N}*",   "a|",          "(?=a)"}) {
    INFO(pattern);
    CHECK(message_of<UsageError>([&] {
            Regex{pattern};
          }).starts_with("pattern \"" + std::string(pattern) + "\": expected what has one"));
  }
  CHECK_NOTHROW(Regex("[^\\s\\p{L}]\\d\\$\\^\\[[.\\]]"));
  Regex::Matcher joined(Regex("[^(\\s|[.,c-e\\]])]"));  // as BLOOM has them
  CHECK(joined.find("(|).,cde] ab", 0)->begin == 10);
  CHECK_NOTHROW(Regex("\\x{61}+a{2,3}?b{2}[{,3}+]\\{,3}+a{x}+(?i:m)"));
}

TEST_CASE("regex: the patterns of published tokenizers are taken, and none looks behind", "[tokenizer]") {
  for (
      const char* const pattern :
      {// Llama 3, Qwen 2, cl100k; o200k; DeepSeek V3
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)",
       R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)",
       R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+"}) {
    INFO(pattern);
    CHECK_FALSE(Regex(pattern).looks_behind());
  }
  CHECK(Regex("(?<=a)b").looks_behind());
  CHECK(Regex("b|(?<!a)b").looks_behind());
}

TEST_CASE("nfc: composes, in Unicode's order", "[tokenizer]") {
  CHECK(nfc("plain") == "plain");
  CHECK(nfc("e\u0301") == "\u00e9");
  CHECK(nfc("a\u0323\u0307") == nfc("a\u0307\u0323"));
  CHECK(nfc("\u1100\u1161") == "\uac00");
  CHECK(nfc("\u212b") == "\u00c5");
}

TEST_CASE("added tokens: the leftmost first, then the longest; stripping; single words", "[tokenizer]") {
  using Pieces = std::vector<std::string>;
  const AddedTokens plain({{.id = 1, .content = "<a>"}, {.id = 2, .content = "<a><b>"}});
  CHECK(pieces(plain, "x<a><b><a>y") == Pieces{"x", "2:<a><b>", "1:<a>", "y"});
  CHECK(pieces(plain, "<a") == Pieces{"<a"});
  CHECK(pieces(plain, "").empty());
  const AddedTokens stripped({{.id = 1, .content = "M", .lstrip = true, .rstrip = true}});
  CHECK(pieces(stripped, "a \n M\t b") == Pieces{"a", "1: \n M\t ", "b"});
  CHECK(pieces(stripped, "M M") == Pieces{"1:M ", "1:M"});
  const AddedTokens word({{.id = 1, .content = "M", .single_word = true}});
  CHECK(pieces(word, "M aM \u00e9M M\u0301 (M)") == Pieces{"1:M", " aM \u00e9M M\u0301 (", "1:M", ")"});
}

TEST_CASE("text stream: a character comes when its last byte has come", "[tokenizer]") {
  const auto tokenizer = fixture("gpt2");
  const std::string text = "A \U0001F600 \u20ac\n";
  TextStream stream(*tokenizer);
  std::string streamed;
  for (const std::uint32_t token : tokenizer->encode(text)) {
    const std::string part = stream.push(token);
    CHECK(io::is_utf8(part));
    streamed += part;
  }
  CHECK(streamed + stream.finish() == text);
  const auto euro = tokenizer->encode("\u20ac");
  REQUIRE(euro.size() > 1);
  CHECK(stream.push(euro[0]).empty());
  CHECK(stream.push(tokenizer->encode("A")[0]) ==
        "\xEF\xBF\xBD"
        "A");
  CHECK(stream.push(euro[0]).empty());
  CHECK(stream.finish() == "\xEF\xBF\xBD");
}

TEST_CASE("tokenizer: the tokens of a long text do not depend on the number of threads", "[tokenizer]") {
  std::string text = "x" + std::string(3000, ' ') + "\n\nx";
  for (int i = 0; text.size() < 900'000; ++i) {
    text += i % 7 == 0    ? "The tree\n"
            : i % 11 == 0 ? std::string(static_cast<std::size_t>(i % 300), '\n') + "Of"
                          : "a b, c's 123\t";
  }
  text += std::string(300'000, 'q') + "\nEnd";
  for (const char* const name : {"gpt2", "llama3", "qwen2", "llama2", "metaspace, split"}) {
    const auto tokenizer = fixture(name);
    const int threads = kernels::threads();
    kernels::set_threads(1);
    const auto one = tokenizer->encode(text);
    kernels::set_threads(5);
    const auto five = tokenizer->encode(text);
    kernels::set_threads(threads);
    INFO(name);
    CHECK(one == five);
    CHECK(tokenizer->decode(one) == text);
    const std::vector<std::string_view> once{text};
    CHECK(tokenizer->encode_each(once)[0] == one);
  }
}

TEST_CASE("tokenizer: a text that comes in pieces has the tokens of the whole", "[tokenizer]") {
  const auto fixtures = nlohmann::json::parse(io::read_whole_file("test", LT_FIXTURES));
  // Stretches in which no place holds: one word, lines that begin with spaces, added tokens that take line feeds,
  // invalid bytes.
  std::string text;
  for (int i = 0; text.size() < 1'500'000; ++i) {
    text += i % 5 == 0    ? fixtures.at("text").get<std::string>()
            : i % 7 == 0  ? "\xE2\x82\n\xFF\n [MASK]\nx\n\n[MASK]"
            : i % 11 == 0 ? std::string(static_cast<std::size_t>(i % 3000), '\n') + "\u4e16\u754c\n\u4e16\n"
            : i % 50 == 1 ? std::string(90'000, 'q') + " a b c"
                          : "a b, c's 123\t\n<|end|>\n";
  }
  for (const auto& entry : fixtures.at("cases")) {
    const auto tokenizer = tokenizer_from_json(entry.at("tokenizer").dump(), "tokenizer.json");
    INFO(entry.at("name").get<std::string>());
    const auto whole = tokenizer->encode(text);
    for (const std::size_t piece : {100'001, 300'000}) {
      Tokenizer::Ids ids;
      std::size_t done = 0, most = 0, calls = 0;
      for (std::size_t end = piece; done < text.size(); end += piece) {
        end = std::min(end, text.size());
        done +=
            tokenizer->encode_front(std::string_view(text).substr(done, end - done), done > 0, end == text.size(), ids);
        most = std::max(most, end - done), ++calls;
      }
      CHECK(ids == whole);
      CHECK(most < 2 * piece + 200'000);
      CHECK(calls > 4);
    }
  }
}

// Ids 0 to 255 are the bytes; the texts of more tokens follow, each merged of two.
std::unique_ptr<Tokenizer> bytes_with(const std::vector<std::pair<std::string, std::string>>& merges,
                                      const std::string& pretokenizers) {
  nlohmann::json described{{"model", {{"type", "BPE"}}}};
  auto& model = described["model"];
  for (int byte = 0; byte < 256; ++byte)
    model["vocab"][written_in_alphabet(std::string(1, static_cast<char>(byte)))] = byte;
  for (const auto& [left, right] : merges) {
    model["merges"].push_back({written_in_alphabet(left), written_in_alphabet(right)});
    model["vocab"][written_in_alphabet(left + right)] = model["vocab"].size();
  }
  described["pre_tokenizer"] = {{"type", "Sequence"},
                                {"pretokenizers", nlohmann::json::parse("[" + pretokenizers + "]")}};
  return tokenizer_from_json(described.dump(), "t.json");
}

const std::string kWords = R"({"type":"ByteLevel","add_prefix_space":false})";
const std::string kDigit = R"({"type":"Digits","individual_digits":true})", kNumber = R"({"type":"Digits"})";
const std::string kPunctuation = R"({"type":"Punctuation","behavior":"Contiguous"})";

TEST_CASE("tokenizer: digits and punctuation are words of their own; splits may drop text", "[tokenizer]") {
  // The ids are those of the tokenizers package.
  const std::vector<std::pair<std::string, std::string>> merges{
      {"1", "2"}, {"12", "3"}, {" ", "1"}, {"0", "0"}, {" 1", "2"}};
  const std::string text = "room 123, 1200 x 12; ½ ٣ Ⅷ a12b";
  const Tokenizer::Ids one_by_one = {114, 111, 111, 109, 32,  49, 50,  51,  44, 32,  49,  50,  48, 48, 32, 120, 32, 49,
                                     50,  59,  32,  194, 189, 32, 217, 163, 32, 226, 133, 167, 32, 97, 49, 50,  98};
  const Tokenizer::Ids together = {114, 111, 111, 109, 32,  257, 44, 32,  256, 259, 32, 120, 32,  256, 59,
                                   32,  194, 189, 32,  217, 163, 32, 226, 133, 167, 32, 97,  256, 98};
  const auto ids = [&](const std::string& pretokenizers, std::string_view of) {
    return bytes_with(merges, pretokenizers)->encode(of);
  };
  CHECK(ids(kDigit + "," + kWords, text) == one_by_one);
  CHECK(ids(kWords + "," + kDigit, text) == one_by_one);
  CHECK(ids(kNumber + "," + kWords, text) == together);
  const std::string split = R"({"type":"Split","pattern":{"Regex":"\\p{N}"},"behavior":"Isolated"})";
  const auto digits = bytes_with(merges, kDigit + "," + kWords), splits = bytes_with(merges, split + "," + kWords);
  CHECK(extends_tokenizer(digits->to_json(), splits->to_json()));
  CHECK_FALSE(extends_tokenizer(digits->to_json(), bytes_with(merges, kWords + "," + kDigit)->to_json()));
  // Behind ByteLevel the characters are those of the byte alphabet, of which 0xBD is a digit.
  const std::vector<std::pair<std::string, std::string>> half{{"\xC2", "\xBD"}};
  CHECK(bytes_with(half, kWords)->encode("½") == Tokenizer::Ids{256});
  CHECK(bytes_with(half, kNumber + "," + kWords)->encode("½") == Tokenizer::Ids{256});
  CHECK(bytes_with(half, kWords + "," + kNumber)->encode("½") == Tokenizer::Ids{0xC2, 0xBD});
  const std::vector<std::pair<std::string, std::string>> marks{{"!", "?"}, {" ", "!"}, {"1", "2"}, {"12", "3"}};
  const std::string three = R"({"type":"Split","pattern":{"Regex":"[0-9][0-9]"},"behavior":"Isolated","invert":false})";
  CHECK(bytes_with(marks, kPunctuation + "," + kWords + "," + three)->encode("a !?1234") ==
        Tokenizer::Ids{97, 32, 256, 258, 51, 52});
  const std::string letters = R"({"type":"Split","pattern":{"Regex":"\\p{L}+"},"behavior":"Removed","invert":)";
  const auto kept = bytes_with(merges, letters + "true}," + kWords),
             dropped = bytes_with(merges, letters + "false}," + kWords);
  CHECK(kept->encode("ab 12 c") == Tokenizer::Ids{97, 98, 99});
  CHECK(dropped->encode("ab 12 c") == Tokenizer::Ids{32, 256, 32});
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (const TokenRange& range : kept->encode_located("ab 12 c1", std::vector<std::size_t>{1, 3, 6, 7}).tokens)
    ranges.emplace_back(range.begin, range.end);
  CHECK(ranges == std::vector<std::pair<std::size_t, std::size_t>>{{1, 2}, {2, 2}, {2, 3}, {3, 3}});
}

TEST_CASE("tokenizer: texts are cut between digits and marks that are words of their own", "[tokenizer]") {
  std::string text;
  while (text.size() < 600'000) text += text.size() % 70'000 < 100 ? "a 12, b!? 3\n" : "one more\nline of words  \n\n";
  for (const std::string& pretokenizers : {kDigit + "," + kWords, kPunctuation + "," + kNumber + "," + kWords}) {
    const auto tokenizer = bytes_with({{" ", "\n"}, {"\n", "\n"}, {"\n", "l"}, {"1", "2"}}, pretokenizers);
    const EncodedPieces pieces = encode_in_pieces(*tokenizer, text, 200'000);
    const int threads = kernels::threads();
    kernels::set_threads(1);
    CHECK(pieces.ids == tokenizer->encode(text));
    kernels::set_threads(threads);
    CHECK(pieces.most_left < 200'000);
  }
}

TEST_CASE("tokenizer: added tokens with spaces and line feeds inside leave places to cut", "[tokenizer]") {
  auto described = nlohmann::json::parse(io::read_whole_file("test", LT_FIXTURES)).at("cases").at(0).at("tokenizer");
  std::size_t next = 1000;
  for (const char* const content : {"New York", "one\nline", " York", "a b c"}) {
    described.at("added_tokens").push_back({{"id", next++}, {"content", content}, {"normalized", true}});
  }
  described.at("added_tokens").push_back({{"id", next++}, {"content", std::string(70'000, 'z')}, {"special", true}});
  const auto tokenizer = tokenizer_from_json(described.dump(), "t.json");
  std::string text;
  for (int i = 0; text.size() < 600'000; ++i) {
    text += i == 5000    ? std::string(70'001, 'z')
            : i % 3 == 0 ? "New York New Yorker one\nlines "
                         : "a b c d one\nline New\nYork\n";
  }
  const EncodedPieces pieces = encode_in_pieces(*tokenizer, text, 200'000);
  CHECK(pieces.ids == tokenizer->encode(text));
  CHECK(pieces.most_left < 300'000);
}

TEST_CASE("tokenizer: words that begin at spaces alone are cut there, not at the ends of lines", "[tokenizer]") {
  // Line feeds have no token, so merges cross them.
  const auto tokenizer = tokenizer_from_json(R"({"pre_tokenizer":{"type":"Metaspace"},"model":{"type":"BPE",
      "vocab":{"\u2581":0,"a":1,"b":2,"ab":3,"ba":4,"\u2581a":5},"merges":[["b","a"],["a","b"],["\u2581","a"]]}})",
                                             "t.json");
  std::string text;
  while (text.size() < 400'000) text += "a b\na ab\nb ba\n\n";
  const EncodedPieces pieces = encode_in_pieces(*tokenizer, text, 100'000);
  CHECK(pieces.ids == tokenizer->encode(text));
  CHECK(pieces.most_left < 100'000);
}

TEST_CASE("tokenizer: a text is not cut inside of an added token", "[tokenizer]") {
  const std::string json = R"({"added_tokens":[{"id":2,"content":"a\nb"}],
                              "model":{"type":"BPE","unk_token":"a","vocab":{"a":0,"b":1},"merges":[]}})";
  const auto tokenizer = tokenizer_from_json(json, "t.json");
  Tokenizer::Ids ids;
  const std::string text = std::string(100'000, 'x') + "a\nb" + std::string(100'000, 'x');
  CHECK(tokenizer->encode_front(text, false, false, ids) == 0);
  CHECK(ids.empty());
  CHECK(tokenizer->encode_front(text, false, true, ids) == text.size());
  CHECK(ids == tokenizer->encode(text));
}

TEST_CASE("tokenizer: a text is not cut where a pattern looks behind", "[tokenizer]") {
  auto described = nlohmann::json::parse(io::read_whole_file("test", LT_FIXTURES)).at("cases").at(2).at("tokenizer");
  described.at("pre_tokenizer").at("pretokenizers").at(0).at("pattern") = {
      {"Regex", R"((?<=\n)\p{L}|\p{L}+|\s+|[^\s\p{L}]+)"}};
  const auto tokenizer = tokenizer_from_json(described.dump(), "t.json");
  std::string text;
  while (text.size() < 300'000) text += "or or\n";  // a token in the middle of a line alone
  CHECK(encode_in_pieces(*tokenizer, text, 100'000).ids == tokenizer->encode(text));
}
