// Cuts text into words, which merges do not cross, as described by tokenizer.json's "normalizer" and "pre_tokenizer".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace lt::tokenizer {

// The changes to text between added tokens before it is cut into words.
struct Normalizer {
  bool nfc = false;
  std::string prepend;  // inserted before non-empty text
  // Each `replaced` becomes `replacement`. If `replaced` is empty, nothing is replaced.
  std::string replaced, replacement;

  // `continues`: the text continues a section, so nothing is inserted before it.
  std::string operator()(std::string_view text, bool continues = false) const;
  bool operator==(const Normalizer&) const = default;
};

// U+2581, which represents a space in Metaspace tokenizers.
inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";

// Cuts a text into the matches of a pattern and the texts between them.
struct Split {
  enum class Drops { nothing, matches, others };  // the texts that get no tokens; others: the texts between matches

  Regex pattern;
  Drops drops = Drops::nothing;
  bool is_of_class = false;     // true: the pattern is a class of characters, or repeats one
  bool is_of_alphabet = false;  // true: it cuts words written in the byte alphabet

  bool operator==(const Split&) const = default;
};

struct PreTokenizer {
  enum class Prepend { never, first, always };  // first: only to the section that begins the text

  std::vector<Split> splits;         // each cuts the words of the previous ones; splits of the alphabet are last
  bool add_prefix_space = false;     // inserts a space before text that does not begin with one
  bool metaspace = false;            // spaces become U+2581
  Prepend prepend = Prepend::never;  // U+2581 before text that does not begin with it
  bool split_metaspace = false;      // a word begins with each U+2581

  // Applies the replacements and insertions to a section of the text. `begins_text`: it is the first section.
  // `continues`: it continues a section, so nothing is inserted before it.
  std::string prepared(std::string text, bool begins_text, bool continues) const;
  // True if a split cuts the text itself, not only words in the byte alphabet.
  bool cuts_text() const { return !splits.empty() && !splits[0].is_of_alphabet; }
  bool operator==(const PreTokenizer&) const = default;
};

// Cuts texts by the splits of a PreTokenizer. Not thread-safe: each thread needs its own.
class WordCutter {
 public:
  // The rules must outlive the cutter.
  explicit WordCutter(const PreTokenizer& rules);

  struct WordEnd {
    std::size_t end;
    bool is_dropped;
  };
  // Cuts by the first splits: all splits of classes up to the first other split, and that split. Starting at the end of
  // any word, they give the same words as for the whole text. Appends the ends of the words that begin in the bytes
  // [begin, end); the last word may end after `end`. `begin` must be the end of a word, and cuts_text() true.
  void cut(std::string_view text, std::size_t begin, std::size_t end, std::vector<WordEnd>& ends);
  // Cuts one word of cut() by the remaining splits, and calls visit(word) for each result.
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
