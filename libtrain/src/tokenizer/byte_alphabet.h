// The alphabet in which byte-level tokenizers write bytes (Radford et al. 2019): printable Latin-1 characters represent
// their own byte, and the characters from U+0100 on the other 68 bytes, in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lt::tokenizer {

// Returns the bytes that `text` (UTF-8) represents; nullopt if a character is not in the alphabet.
std::optional<std::string> bytes_of_alphabet(std::string_view text);
// The inverse: returns one character for each byte.
std::string written_in_alphabet(std::string_view bytes);

// Returns the byte of a token such as <0x0A>, as tokenizers of characters write bytes; nullopt for other tokens.
std::optional<char> byte_of_token(std::string_view token);

}  // namespace lt::tokenizer
