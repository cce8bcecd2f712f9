// Finds added tokens in a text.
#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <functional>
#include <string>

#include "io/utf8.h"
#include "tokenizer/regex.h"
#include "tokenizer/white_space.h"

namespace lt::tokenizer {
namespace {

// The characters of words, by Unicode Technical Standard 18, annex C; PCRE2's \w leaves marks out.
constexpr const char* kWord = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]";

bool is_word(std::string_view character) {
  static const Regex word(kWord);
  return !character.empty() && Regex::Matcher(word).find(character, 0).has_value();
}

std::string_view first_character(std::string_view text) {
  return text.empty() ? text : text.substr(0, std::max<std::size_t>(1, io::utf8_length(text)));
}

std::string_view last_character(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0 && (begin == text.size() || (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80)) --begin;
  return text.substr(begin);
}

bool is_space(std::string_view character) {
  return !character.empty() && is_white_space(io::utf8_character(character, character.size()));
}

std::size_t spaces_at_end(std::string_view text) {
  const std::size_t size = text.size();
  while (is_space(last_character(text))) text.remove_suffix(last_character(text).size());
  return size - text.size();
}

std::size_t spaces_at_begin(std::string_view text) {
  const std::size_t size = text.size();
  while (is_space(first_character(text))) text.remove_prefix(first_character(text).size());
  return size - text.size();
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (!tokens_[i].content.empty()) by_first_byte_[static_cast<unsigned char>(tokens_[i].content[0])].push_back(i);
  }
  for (auto& indices : by_first_byte_) {
    std::ranges::stable_sort(indices, std::greater<>(), [&](std::size_t i) { return tokens_[i].content.size(); });
  }
}

std::vector<Section> AddedTokens::find(std::string_view text) const {
  std::vector<Section> sections;
  std::size_t done = 0;
  const auto add_text = [&](std::size_t end) {
    if (end > done) sections.push_back({text.substr(done, end - done), nullptr});
  };
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = nullptr;
    for (const std::size_t i : by_first_byte_[static_cast<unsigned char>(text[at])]) {
      if (!text.substr(at).starts_with(tokens_[i].content)) continue;
      token = &tokens_[i];
      break;
    }
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->single_word &&
        (is_word(last_character(text.substr(0, begin))) || is_word(first_character(text.substr(end))))) {
      continue;
    }
    if (token->lstrip) begin = std::max(begin - spaces_at_end(text.substr(done, begin - std::min(begin, done))), done);
    if (token->rstrip) end += spaces_at_begin(text.substr(end));
    add_text(begin);
    sections.push_back({text.substr(begin, end - begin), token});
    done = end;
    at = std::max(at, done);
  }
  add_text(text.size());
  return sections;
}

}  // namespace lt::tokenizer
