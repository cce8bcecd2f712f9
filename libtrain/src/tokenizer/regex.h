// Regular expressions over UTF-8 text, as tokenizers use them. The only file that sees PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lt::tokenizer {

struct RegexMatch {
  std::size_t begin, end;  // bytes
};

// A compiled pattern in the syntax that tokenizers have in common, with Unicode's classes: \s is White_Space, \p{L} the
// letters. Other escapes than \s \S \d \p \P \r \n \t \x and those of punctuation are refused, and so are anchors,
// nested classes other than plain ones, {n}? {n,m}+ {,n}, the option m, and patterns that can match without a
// character, because libraries read them differently. Copies share the pattern.
class Regex {
 public:
  // Throws UsageError that says what is wrong with the pattern, and where.
  explicit Regex(const std::string& pattern);

  const std::string& pattern() const;
  // Whether a match may depend on characters before it.
  bool looks_behind() const;
  bool operator==(const Regex& other) const { return pattern() == other.pattern(); }

  // Finds matches. Each thread needs a matcher of its own.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    // The first non-empty match that begins at `from` or later. `text` must be valid UTF-8. Throws DataError if the
    // pattern's matching exceeds its limits.
    std::optional<RegexMatch> find(std::string_view text, std::size_t from);

   private:
    struct State;
    std::shared_ptr<State> state_;
  };

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace lt::tokenizer
