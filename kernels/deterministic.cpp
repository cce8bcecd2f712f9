// The setting of the process.
#include "kernels/deterministic.h"

#include <atomic>

namespace lt::kernels {
namespace {
std::atomic<bool> is_deterministic = false;
}

void set_deterministic(bool on) { is_deterministic = on; }
bool deterministic() { return is_deterministic; }

}  // namespace lt::kernels
