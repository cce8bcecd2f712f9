// What kernels want a person to know: that a slower way was taken, and why. Each text counts once a process.
#pragma once

#include <string>
#include <vector>

namespace lt::kernels {

void give_notice(const std::string& text);
// Those since the last call.
std::vector<std::string> take_notices();

}  // namespace lt::kernels
