// Counts the work of a user's operation.
#include "libtrain/profile/operation.h"

#include "profile/work_count.h"

namespace lt {

void count_matmul_flops(double flops) { profile::count_matmuls(flops); }

}  // namespace lt
