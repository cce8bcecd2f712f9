// Settings of the process: any thread may read them.
#include "kernels/settings.h"

#include <atomic>

namespace lt::kernels {
namespace {
std::atomic<bool> is_deterministic = false, takes_tf32 = false;
}

void set_deterministic(bool on) { is_deterministic = on; }
bool deterministic() { return is_deterministic; }

void set_tf32(bool on) { takes_tf32 = on; }
bool tf32() { return takes_tf32; }

}  // namespace lt::kernels
