// Text for drawings and pages: formatted sizes and escaped text.
#pragma once

#include <string>
#include <string_view>

namespace lt::drawing {

inline constexpr const char* kDash = "–";    // a missing value (NaN)
inline constexpr double kPowersFrom = 1e15;  // numbers from this one on are written with a power of ten

// "1.50 GiB", "12.0 MiB", "900 B": three digits, binary units.
std::string bytes_text(double bytes);
// Text that any reader can show: bytes that are not UTF-8 and control characters except tab and newline become U+FFFD,
// and a carriage return is dropped.
std::string printable(std::string_view text);
// Like printable(), but also escapes the characters that end text or attributes in HTML and XML.
std::string escaped(std::string_view text);

}  // namespace lt::drawing
