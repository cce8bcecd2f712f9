// The stub for builds without NCCL: groups accept only tensors on the CPU.
#include "libtrain/comm/group.h"
#include "libtrain/error.h"

namespace lt {

Group Group::with_nccl(Device device) const {
  throw UsageError("comm",
                   "with_nccl: expected a build with NCCL for device " + to_string(device) + ", this one has MPI",
                   "configure with -DLIBTRAIN_CUDA=ON, or choose cpu");
}

}  // namespace lt
