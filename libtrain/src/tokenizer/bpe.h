// Byte pair encoding (Sennrich et al. 2016): a vocabulary of byte strings, and an ordered list of merges. A word is
// first split into its smallest tokens. Then the adjacent pair that is earliest in the list is merged (the leftmost of
// equal pairs), until no pair is in the list.
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
  std::optional<std::uint32_t> unknown{};  // id for characters that are still unknown; nullopt: they are dropped
  bool fuse_unknown = false;               // adjacent unknown characters become one token
  bool ignore_merges = false;              // a word in the vocabulary becomes that token without merges

  bool operator==(const BpeOptions&) const = default;
};

class Bpe {
 public:
  using Tokens = std::vector<std::pair<std::string, std::uint32_t>>;
  using Merges = std::vector<std::pair<std::string, std::string>>;

  // Tokens are bytes with by_bytes, otherwise UTF-8. Throws DataError that names a merge if one of its parts or its
  // result is not a token. Throws UsageError if by_bytes and byte_fallback are set and a byte has no token.
  Bpe(const Tokens& vocabulary, const Merges& merges, const BpeOptions& options);

  // Appends the tokens of a word to `ids`.
  void encode(std::string_view word, std::vector<std::uint32_t>& ids) const;
  // Returns the index, among the word's tokens, of the token that holds the byte at `position`. Returns an empty range
  // for a dropped character, unless the characters around it form one token.
  TokenRange token_at(std::string_view word, std::size_t position) const;

  // True if a text that is not cut into words may be cut between these two characters: no token has them next to each
  // other, so no merge crosses the cut. Only for tokens of characters.
  bool may_cut(char32_t before, char32_t after) const;
  // True if may_cut() is sufficient. False if such a cut could separate fused unknown characters, an unknown character
  // and byte tokens that move ahead of it, bytes that merge, or tokens that merge across a dropped character.
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

  struct ByteRange {
    std::size_t begin, end;  // bytes
  };
  // Appends the word's smallest tokens. Drops a character (with by_bytes a byte) that has no token and no fallback. An
  // unknown token is placed directly before the next character in the vocabulary, so after the byte tokens of
  // characters in between. `ranges`, if not null, receives each token's range in the word; the range of a fused token
  // ends with its last character.
  void add_smallest(std::string_view word, std::vector<std::uint32_t>& ids, std::vector<ByteRange>* ranges) const;
  const Merge* find_merge(std::uint32_t left, std::uint32_t right) const;
  void merge_short(std::vector<std::uint32_t>& ids, std::size_t begin) const;
  void merge_long(std::vector<std::uint32_t>& ids, std::size_t begin) const;
  void add_merge(std::uint32_t left, std::uint32_t right, Merge merge);

  BpeOptions options_;
  std::unordered_map<std::string, std::uint32_t> tokens_;
  std::vector<std::uint32_t> lengths_;                     // bytes of each token, by id
  std::array<std::optional<std::uint32_t>, 256> bytes_{};  // the token of each byte
  // The merges by pair of tokens: a hash table with open addressing. Its size is a power of two; empty entries hold
  // kNone.
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::vector<std::pair<std::uint64_t, Merge>> merges_;
  bool can_be_cut_ = false;
  std::vector<std::uint64_t> neighbours_;  // pairs of adjacent characters in tokens, sorted
};

}  // namespace lt::tokenizer
