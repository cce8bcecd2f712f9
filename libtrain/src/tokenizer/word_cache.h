// Remembers the tokens of words, since most words of a text come again. A word replaces an older one at its place.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lt::tokenizer {

class WordCache {
 public:
  // Appends the tokens of `word` to `ids`; `encode(word, ids)` makes them where they are not known.
  template <class Encode>
  void append(std::string_view word, std::vector<std::uint32_t>& ids, Encode&& encode) {
    if (word.size() > kLongestWord) return encode(word, ids);
    Entry& entry = entries_[std::hash<std::string_view>()(word) % kPlaces];
    if (entry.word != word) {
      entry.word.clear(), entry.ids.clear();  // should encode() throw
      encode(word, entry.ids);
      entry.word = word;
    }
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.end());
  }

 private:
  static constexpr std::size_t kPlaces = 1 << 15, kLongestWord = 128;
  struct Entry {
    std::string word;
    std::vector<std::uint32_t> ids;
  };
  std::vector<Entry> entries_ = std::vector<Entry>(kPlaces);
};

}  // namespace lt::tokenizer
