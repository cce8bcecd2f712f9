// A build without NCCL: groups take only tensors on the CPU.
#include "comm/least_copied_bytes.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"

namespace lt {

Group Group::with_nccl(Device device) const {
  throw UsageError("comm",
                   "with_nccl: expected a build with NCCL for device " + to_string(device) + ", this one has MPI",
                   "configure with -DLIBTRAIN_CUDA=ON, or choose cpu");
}

Size set_least_copied_bytes(Size bytes) { return bytes; }

void pin_nccl_algorithm(const Group&) {}

}  // namespace lt
