// Cuts text into the words that merges do not cross, in the ways of tokenizer.json's "normalizer" and "pre_tokenizer".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace lt {

// What happens to the text between added tokens before its words are cut.
struct Normalizer {
  bool nfc = false;
  std::string prepend;  // put before text that is not empty
  // Each `replaced` becomes `replacement`. Empty: none.
  std::string replaced, replacement;

  // `continues`: the text continues a section, so nothing is put before it.
  std::string operator()(std::string_view text, bool continues = false) const;
  bool operator==(const Normalizer&) const = default;
};

// U+2581, which stands for a space in Metaspace tokenizers.
inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";

struct PreTokenizer {
  enum class Prepend { never, first, always };  // first: only to the section that begins the text

  std::vector<Regex> splits;         // each cuts what those before it left; text between its matches is a word too
  bool add_prefix_space = false;     // before text that does not begin with a space
  bool metaspace = false;            // spaces become U+2581
  Prepend prepend = Prepend::never;  // U+2581 before text that does not begin with it
  bool split_metaspace = false;      // a word begins with each U+2581

  // Applies what is not cutting to a section of the text. `begins_text`: it is the first. `continues`: it continues a
  // section, so nothing is put before it.
  std::string prepared(std::string text, bool begins_text, bool continues) const;
  bool operator==(const PreTokenizer&) const = default;
};

// Cuts one text by the splits of a PreTokenizer. Each thread needs one of its own.
class WordCutter {
 public:
  explicit WordCutter(const PreTokenizer& rules);

  // Where the words of the first split end that begin in text[begin, end), `begin` being the end of a word: the last
  // one may end beyond `end`. There must be a split.
  void cut(std::string_view text, std::size_t begin, std::size_t end, std::vector<std::size_t>& ends);
  // Calls visit(word) with the words that the other splits leave of one word of the first.
  template <class Visit>
  void refine(std::string_view word, Visit&& visit) {
    refine_by(1, word, visit);
  }

 private:
  template <class Visit>
  void refine_by(std::size_t split, std::string_view word, Visit& visit) {
    if (split >= matchers_.size()) return visit(word);
    std::vector<std::size_t> ends;
    cut_by(split, word, 0, word.size(), ends);
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      refine_by(split + 1, word.substr(begin, end - begin), visit);
      begin = end;
    }
  }
  void cut_by(std::size_t split, std::string_view text, std::size_t begin, std::size_t end,
              std::vector<std::size_t>& ends);

  std::vector<Regex::Matcher> matchers_;
};

}  // namespace lt
