// Encodes bytes as text for JSON: base64 (RFC 4648, section 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lt::io {

std::string to_base64(std::string_view bytes);
// Returns nullopt for text that to_base64() cannot have written.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace lt::io
