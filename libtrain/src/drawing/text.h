// Text for drawings and pages: formatted sizes and escaped text.
#pragma once

#include <string>
#include <string_view>

namespace lt::drawing {

inline constexpr const char* kDash = "–";  // stands for a missing value (NaN)

// "1.50 GiB", "12.0 MiB", "900 B": three digits, binary units.
std::string bytes_text(double bytes);
// Escapes the characters that end text or attributes in HTML and XML. Bytes that are not UTF-8 and control characters
// except tab and newline become U+FFFD; a carriage return is dropped.
std::string escaped(std::string_view text);

}  // namespace lt::drawing
