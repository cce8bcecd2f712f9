// Cuts text into the words that merges do not cross, in the ways of tokenizer.json's "normalizer" and "pre_tokenizer".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace lt::tokenizer {

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

// Cuts a text into the matches of a pattern and the texts between them.
struct Split {
  enum class Drops { nothing, matches, others };  // which of them get no tokens

  Regex pattern;
  Drops drops = Drops::nothing;
  bool is_of_class = false;     // the pattern is a class of characters, or repeats one
  bool is_of_alphabet = false;  // it cuts words written in the byte alphabet

  bool operator==(const Split&) const = default;
};

struct PreTokenizer {
  enum class Prepend { never, first, always };  // first: only to the section that begins the text

  std::vector<Split> splits;         // each cuts what those before it left; those of the alphabet are the last
  bool add_prefix_space = false;     // before text that does not begin with a space
  bool metaspace = false;            // spaces become U+2581
  Prepend prepend = Prepend::never;  // U+2581 before text that does not begin with it
  bool split_metaspace = false;      // a word begins with each U+2581

  // Applies what is not cutting to a section of the text. `begins_text`: it is the first. `continues`: it continues a
  // section, so nothing is put before it.
  std::string prepared(std::string text, bool begins_text, bool continues) const;
  // Whether a split cuts the text itself.
  bool cuts_text() const { return !splits.empty() && !splits[0].is_of_alphabet; }
  bool operator==(const PreTokenizer&) const = default;
};

// Cuts one text by the splits of a PreTokenizer. Each thread needs one of its own.
class WordCutter {
 public:
  // The rules must outlive the cutter.
  explicit WordCutter(const PreTokenizer& rules);

  struct WordEnd {
    std::size_t end;
    bool is_dropped;
  };
  // Where the words of the first splits end that begin in text[begin, end), `begin` being the end of a word: the last
  // one may end beyond `end`. The first splits are those of classes and the one behind them: their words are the same
  // from the end of any of them on. The rules must cut text.
  void cut(std::string_view text, std::size_t begin, std::size_t end, std::vector<WordEnd>& ends);
  // Calls visit(word) with the words that the other splits leave of one word of the first.
  template <class Visit>
  void refine(std::string_view word, Visit&& visit) {
    refine_by(first_splits_, word, visit);
  }

 private:
  template <class Visit>
  void refine_by(std::size_t split, std::string_view word, Visit& visit) {
    if (split >= splits_.size()) return visit(word);
    std::vector<WordEnd> ends;
    cut_word(split, word, ends);
    std::size_t begin = 0;
    for (const auto& [end, is_dropped] : ends) {
      if (!is_dropped) refine_by(split + 1, word.substr(begin, end - begin), visit);
      begin = end;
    }
  }
  // Cuts by the first splits from `split` on.
  void cut_by(std::size_t split, std::string_view text, std::size_t begin, std::size_t end, std::vector<WordEnd>& ends);
  // Cuts by one split.
  void cut_word(std::size_t split, std::string_view word, std::vector<WordEnd>& ends);

  const std::vector<Split>& splits_;
  std::vector<Regex::Matcher> matchers_;
  std::size_t first_splits_ = 0;
};

}  // namespace lt::tokenizer
