// The stub for a build without CUPTI, which cannot record kernels.
#include "libtrain/error.h"
#include "profile/kernel_profile.h"

namespace lt::profile {

std::unique_ptr<KernelProfile> make_kernel_profile(Device, std::byte*) {
  throw UsageError("device", "CUPTI is not in this build, which found no cupti.h",
                   "install CUPTI of the CUDA toolkit (apt-get install cuda-cupti-dev-13-0) and configure again");
}

}  // namespace lt::profile
