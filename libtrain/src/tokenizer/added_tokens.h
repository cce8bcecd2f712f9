// Added tokens, such as "<|endoftext|>": tokens that are found in a text before the text is cut into words.
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
  bool single_word = false;             // true: not next to a letter, mark, digit or underscore
  bool lstrip = false, rstrip = false;  // true: includes the white space before it, after it
  bool normalized = false;              // true: searched for in the normalized text
  bool special = false;

  bool operator==(const AddedToken&) const = default;
};

// A piece of a text: an added token, or text between added tokens.
struct Section {
  std::string_view text;
  const AddedToken* token;  // null: text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  const std::vector<AddedToken>& all() const { return tokens_; }
  // Cuts the text at its added tokens: always at the leftmost one, and at the longest of several that begin there.
  std::vector<Section> find(std::string_view text) const;

 private:
  std::vector<AddedToken> tokens_;
  std::array<std::vector<std::size_t>, 256> by_first_byte_;  // indices, the longest content first
};

}  // namespace lt::tokenizer
