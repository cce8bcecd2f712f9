// The alphabet in which byte-level tokenizers write bytes (Radford et al. 2019): printable Latin-1 stands for itself,
// and the other 68 bytes, in order, for the characters from U+0100 on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lt::tokenizer {

// The bytes that `text`, UTF-8, stands for; nullopt if a character is not in the alphabet.
std::optional<std::string> bytes_of_alphabet(std::string_view text);
// The reverse: a character for each byte.
std::string written_in_alphabet(std::string_view bytes);

// The byte of a token such as <0x0A>, with which tokenizers of characters write bytes; nullopt for any other token.
std::optional<char> byte_of_token(std::string_view token);

}  // namespace lt::tokenizer
