// The least size of a collective that is copied between GPUs instead of left to NCCL. For tests.
#pragma once

#include "libtrain/dtype.h"

namespace lt {

// Gathers and reductions whose arriving data have fewer bytes are left to NCCL; returns the bound before. Set it to the
// same value on all ranks, while no collective is under way.
Size set_least_copied_bytes(Size bytes);

}  // namespace lt
