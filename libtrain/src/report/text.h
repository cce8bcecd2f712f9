// Numbers as a report writes them, and text made safe for HTML. A missing value (NaN) is a dash.
#pragma once

#include <string>
#include <string_view>

namespace lt::report {

// "1.50 GiB", "12.0 MiB", "900 B": three digits, binary units.
std::string bytes_text(double bytes);
// "1.27M", "35.0k", "812".
std::string count_text(double count);
// With `digits` after the point.
std::string fixed_text(double value, int digits);
// "2m05s".
std::string duration_text(double seconds);
// "2026-11-21 15:41:02 UTC".
std::string time_text(double unix_seconds);
// "37%".
std::string percent_text(double fraction, int digits = 0);
// A whole number.
std::string whole_text(double value);
// "12.35", "0.50", "0.0037": two digits, more after the point where the value is small.
std::string rate_text(double value);
// "gather_exposed" as words.
std::string spaced(std::string name);
// Without characters that end text or attributes in HTML and XML; control characters other than tab and newline and
// bytes that are no UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

}  // namespace lt::report
