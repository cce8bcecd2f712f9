// Formats numbers for display: "1.27M", "33m12s".
#pragma once

#include <string>

#include "libtrain/dtype.h"

namespace lt::recorder {

std::string short_count(double value);
std::string short_duration(double seconds);
// "1 layer", "2 layers".
std::string counted(Size count, const std::string& noun);

}  // namespace lt::recorder
