// Text of drawings and pages: sizes, and characters that HTML and XML do not take for their own.
#pragma once

#include <string>
#include <string_view>

namespace lt::drawing {

inline constexpr const char* kDash = "–";  // for a value that is missing, NaN

// "1.50 GiB", "12.0 MiB", "900 B": three digits, binary units.
std::string bytes_text(double bytes);
// Without characters that end text or attributes in HTML and XML; control characters other than tab and newline and
// bytes that are no UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

}  // namespace lt::drawing
