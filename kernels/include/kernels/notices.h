// Messages of kernels to the user, such as that a slower implementation runs and why. Each text is kept once a process.
#pragma once

#include <string>
#include <vector>

namespace lt::kernels {

void give_notice(const std::string& text);
// The notices added since the last call, oldest first.
std::vector<std::string> take_notices();

}  // namespace lt::kernels
