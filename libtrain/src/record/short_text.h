// Numbers as people read them: "1.27M", "33m12s".
#pragma once

#include <string>

namespace lt {

std::string short_count(double value);
std::string short_duration(double seconds);

}  // namespace lt
