// Tokens that are found in a text before it is cut into words, such as "<|endoftext|>".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lt::tokenizer {

struct AddedToken {
  std::uint32_t id = 0;
  std::string content;
  bool single_word = false;             // not where a letter, mark, digit or underscore stands beside it
  bool lstrip = false, rstrip = false;  // takes the white space before it, after it
  bool normalized = false;              // looked for in the normalized text
  bool special = false;

  bool operator==(const AddedToken&) const = default;
};

// A piece of a text: an added token, or text between them.
struct Section {
  std::string_view text;
  const AddedToken* token;  // null: text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  const std::vector<AddedToken>& all() const { return tokens_; }
  // Cuts the text at its added tokens: the leftmost first, of those that begin alike the longest.
  std::vector<Section> find(std::string_view text) const;

 private:
  std::vector<AddedToken> tokens_;
  std::array<std::vector<std::size_t>, 256> by_first_byte_;  // indices, the longest content first
};

}  // namespace lt::tokenizer
