// Text of drawings and pages: sizes and escaped characters.
#pragma once

#include <string>
#include <string_view>

namespace lt::drawing {

inline constexpr const char* kDash = "–";  // for a missing value, NaN

// "1.50 GiB", "12.0 MiB", "900 B": three digits, binary units.
std::string bytes_text(double bytes);
// Escapes characters that end text or attributes in HTML and XML. Control characters other than tab and newline, and
// bytes that are not UTF-8, become U+FFFD.
std::string escaped(std::string_view text);

}  // namespace lt::drawing
