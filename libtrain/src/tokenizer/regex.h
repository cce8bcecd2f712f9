// Regular expressions over UTF-8 text, as tokenizers use them.
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

// A compiled pattern in the common syntax of tokenizers, with Unicode's classes: \s is White_Space, \p{L} the letters.
// Rejects syntax that libraries read differently: escapes other than \s \S \d \p \P \r \n \t \x and escaped
// punctuation, anchors, nested classes other than plain ones, {n}? {n,m}+ {,n}, the option m, and patterns that can
// match the empty text. Copies share the pattern.
class Regex {
 public:
  // Throws UsageError that names the error in the pattern and its position.
  explicit Regex(const std::string& pattern);

  const std::string& pattern() const;
  // True if a match may depend on characters before it.
  bool looks_behind() const;
  bool operator==(const Regex& other) const { return pattern() == other.pattern(); }

  // Finds matches. Not thread-safe: each thread needs its own.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    // Returns the first non-empty match that begins at or after `from`; nullopt if there is none. `text` must be valid
    // UTF-8. Throws DataError if matching exceeds PCRE2's limits.
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
