// Replaces kernels/cpu/threads.cpp, which needs OpenMP, in a fuzz target.
#include "kernels/threads.h"

namespace lt::kernels {

void on_each_thread(const std::function<void()>& body) { body(); }

}  // namespace lt::kernels
