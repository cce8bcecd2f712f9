// Finds the tokens that hold given byte positions of a text while the text is encoded section by section. Positions of
// a section are mapped to positions in its normalized text.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/bpe.h"

namespace lt::tokenizer {

class TokenSearch {
 public:
  TokenSearch(std::vector<std::size_t> positions, std::vector<TokenRange>& tokens)
      : positions_(std::move(positions)), tokens_(tokens) {}

  // Records that the remaining positions before `end` are in token number `token`.
  void found(std::size_t end, std::size_t token) {
    for (; is_before(end); ++next_) tokens_.push_back({token, token + 1});
  }
  // Finds the positions in a word that begins at `begin` and follows `tokens_before` tokens. Positions before the word
  // are in dropped words, so they get an empty range.
  void find_in(const Bpe& bpe, std::string_view word, std::size_t begin, std::size_t tokens_before) {
    for (; is_before(begin); ++next_) tokens_.push_back({tokens_before, tokens_before});
    for (; is_before(begin + word.size()); ++next_) {
      const TokenRange found = bpe.token_at(word, positions_[next_] - begin);
      tokens_.push_back({tokens_before + found.begin, tokens_before + found.end});
    }
  }
  // Records that the remaining positions are in no token, because normalization or a split has removed the end of the
  // text.
  void finish(std::size_t tokens_before) {
    for (; next_ < positions_.size(); ++next_) tokens_.push_back({tokens_before, tokens_before});
  }
  // Returns a search for the positions in a section that begins at `begin`. Applies `map` to the section's text before
  // each position; the length of the result is the new position. Text that is inserted before a section belongs to its
  // first byte.
  template <class Map>
  TokenSearch within(std::string_view section, std::size_t begin, Map&& map) {
    std::vector<std::size_t> mapped;
    for (; is_before(begin + section.size()); ++next_) {
      const std::size_t length = positions_[next_] - begin;
      mapped.push_back(length == 0 ? 0 : map(section.substr(0, length)).size());
    }
    return {std::move(mapped), tokens_};
  }

 private:
  bool is_before(std::size_t end) const { return next_ < positions_.size() && positions_[next_] < end; }

  std::vector<std::size_t> positions_;
  std::vector<TokenRange>& tokens_;
  std::size_t next_ = 0;
};

}  // namespace lt::tokenizer
