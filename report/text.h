// Formats numbers for a report. A missing value (NaN) is a dash.
#pragma once

#include <string>

#include "drawing/text.h"

namespace lt::report {

using drawing::bytes_text;
using drawing::escaped;
using drawing::kDash;
using drawing::kPowersFrom;
using drawing::printable;

// "1.27M", "35.0k", "812".
std::string count_text(double count);
// With `digits` digits after the point.
std::string fixed_text(double value, int digits);
// Milliseconds with one digit after the point, below 10 with two, below 0.1 with three.
std::string ms_text(double ms);
// Like ms_text(), but for the cells of a column: at least two digits after the point.
std::string ms_cell(double ms);
// "2m05s".
std::string duration_text(double seconds);
// "2026-11-21 15:41:02 UTC".
std::string time_text(double unix_seconds);
// "409.6 GFLOP/s", "51.2 TFLOP/s".
std::string flops_text(double per_second);
// "37%".
std::string percent_text(double fraction, int digits = 0);
// Rounded to a whole number.
std::string whole_text(double value);
// "12.35", "0.50", "0.0037": two digits after the point, more for small values.
std::string rate_text(double value);
// "gather_exposed" as "gather exposed".
std::string spaced(std::string name);

}  // namespace lt::report
