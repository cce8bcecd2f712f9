// Tables of the byte alphabet in both directions.
#include "tokenizer/byte_alphabet.h"

#include <array>

#include "io/utf8.h"

namespace lt::tokenizer {
namespace {

constexpr int kCharacters = 256 + 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

// The byte of each character; -1: none.
constexpr std::array<int, kCharacters> byte_of_character() {
  std::array<int, kCharacters> table{};
  table.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte)
    table[static_cast<std::size_t>(stands_for_itself(byte) ? byte : next++)] = byte;
  return table;
}

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view text) {
  static constexpr auto table = byte_of_character();
  std::string bytes;
  while (!text.empty()) {
    const std::size_t length = io::utf8_length(text);
    const char32_t character = length == 0 ? kCharacters : io::utf8_character(text, length);
    if (character >= kCharacters || table[character] < 0) return std::nullopt;
    bytes += static_cast<char>(table[character]);
    text.remove_prefix(length);
  }
  return bytes;
}

std::string written_in_alphabet(std::string_view bytes) {
  static const auto characters = [] {
    std::array<std::string, 256> all;
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const int character = stands_for_itself(byte) ? byte : next++;
      std::string& text = all[static_cast<std::size_t>(byte)];
      if (character >= 0x80) text += static_cast<char>(0xc0 | character >> 6);
      text += static_cast<char>(character < 0x80 ? character : 0x80 | (character & 0x3f));
    }
    return all;
  }();
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) text += characters[static_cast<unsigned char>(byte)];
  return text;
}

std::optional<char> byte_of_token(std::string_view token) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const int high = digit(token[3]), low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

}  // namespace lt::tokenizer
