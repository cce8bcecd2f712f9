// Byte pair encoding (Sennrich et al. 2016): a vocabulary of byte strings, and an ordered list of merges. A word begins
// as its smallest tokens; the pair of neighbours that stands first in the list is merged, the leftmost of equal ones,
// until no pair is in the list.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libtrain/tokenizer/tokenizer.h"

namespace lt::tokenizer {

struct BpeOptions {
  bool by_bytes = true;                    // the smallest tokens are bytes; false: characters
  bool byte_fallback = false;              // a character outside the vocabulary becomes tokens <0x00> to <0xFF>
  std::optional<std::uint32_t> unknown{};  // what a character becomes that is still outside
  bool fuse_unknown = false;               // neighbours that are unknown become one token
  bool ignore_merges = false;              // a word that is a token becomes it, whatever the merges say

  bool operator==(const BpeOptions&) const = default;
};

class Bpe {
 public:
  using Tokens = std::vector<std::pair<std::string, std::uint32_t>>;
  using Merges = std::vector<std::pair<std::string, std::string>>;

  // With by_bytes, tokens are bytes, else UTF-8. Throws DataError that names a merge of what is no token, and
  // UsageError if by_bytes, byte_fallback and a byte has no token.
  Bpe(const Tokens& vocabulary, const Merges& merges, const BpeOptions& options);

  // Appends the tokens of a word to `ids`.
  void encode(std::string_view word, std::vector<std::uint32_t>& ids) const;
  // The token, among those of the word, that holds the byte at `position`. No token holds a character that is dropped,
  // unless the characters around it are one token.
  TokenRange token_at(std::string_view word, std::size_t position) const;

  // Where a text without words of its own can be cut: no token has these two characters next to each other, so no merge
  // crosses the cut. Only for tokens of characters.
  bool may_cut(char32_t before, char32_t after) const;
  // Whether may_cut() is all that matters: a cut parts neither unknown characters that become one token, nor an unknown
  // character from bytes that pass it, nor bytes that merge, nor tokens that merge across a character without one.
  bool can_be_cut() const { return can_be_cut_; }

  std::optional<std::uint32_t> find(std::string_view token) const;

 private:
  struct Merge {
    std::uint32_t rank, result;
  };
  // A token in the list of a word's tokens.
  struct Symbol {
    std::uint32_t id;
    std::int32_t previous, next;
  };

  struct Place {
    std::size_t begin, end;  // bytes
  };
  // A character, or with by_bytes a byte, that has no token, and may become none, is dropped. The unknown token stands
  // before the next character of the vocabulary, so behind the bytes of characters that come between. `places`, if not
  // null, receives where in the word each token stands: one that stands for several characters ends with the last of
  // them.
  void add_smallest(std::string_view word, std::vector<std::uint32_t>& ids, std::vector<Place>* places) const;
  const Merge* find_merge(std::uint32_t left, std::uint32_t right) const;
  void merge_short(std::vector<std::uint32_t>& ids, std::size_t begin) const;
  void merge_long(std::vector<std::uint32_t>& ids, std::size_t begin) const;
  void add_merge(std::uint32_t left, std::uint32_t right, Merge merge);

  BpeOptions options_;
  std::unordered_map<std::string, std::uint32_t> tokens_;
  std::vector<std::uint32_t> lengths_;                     // of each token, in bytes, by id
  std::array<std::optional<std::uint32_t>, 256> bytes_{};  // the token of each byte
  // Pairs of tokens, in a table with open addressing of a power of two of places; empty places hold kNone.
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::vector<std::pair<std::uint64_t, Merge>> merges_;
  bool can_be_cut_ = false;
  std::vector<std::uint64_t> neighbours_;  // characters next to each other in a token, sorted
};

}  // namespace lt::tokenizer
