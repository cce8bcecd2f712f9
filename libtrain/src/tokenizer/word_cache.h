// Caches the tokens of words, because most words of a text are repeated. A word replaces an older one in its entry.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lt::tokenizer {

class WordCache {
 public:
  // Appends the tokens of `word` to `ids`. Calls encode(word, ids) if the cache lacks them.
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
