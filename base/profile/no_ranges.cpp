// Stubs for a build without CUDA, which has no profiler.
#include "profile/ranges.h"

namespace lt::profile {

void push_range(std::string_view) {}
void pop_range() {}

}  // namespace lt::profile
