// Finds the tokens that hold given byte positions of a text, while the text is encoded section by section. The
// positions of a section are mapped to the text that it becomes.
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

  // The positions before `end` are in the token of this number.
  void found(std::size_t end, std::size_t token) {
    for (; is_before(end); ++next_) tokens_.push_back({token, token + 1});
  }
  // The positions in a word, which `tokens_before` tokens precede. Those before it are in words that were dropped.
  void find_in(const Bpe& bpe, std::string_view word, std::size_t begin, std::size_t tokens_before) {
    for (; is_before(begin); ++next_) tokens_.push_back({tokens_before, tokens_before});
    for (; is_before(begin + word.size()); ++next_) {
      const TokenRange found = bpe.token_at(word, positions_[next_] - begin);
      tokens_.push_back({tokens_before + found.begin, tokens_before + found.end});
    }
  }
  // The positions that are left are in no token, because normalization removed what stood there to the end, or a split
  // dropped it.
  void finish(std::size_t tokens_before) {
    for (; next_ < positions_.size(); ++next_) tokens_.push_back({tokens_before, tokens_before});
  }
  // The positions of section [begin, end), with `map` applied to the text between its begin and a position. What is put
  // before a section belongs to its first byte.
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
