// The device of each rank.
#pragma once

#include <memory>

#include "libtrain/comm/world.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/train/run_options.h"
#include "profile/kernel_profile.h"

namespace lt {

// step_options() on the device of this rank: of a host's CUDA devices each of its ranks has its own. Throws UsageError
// where it is not there.
StepOptions step_options_of_rank(const Config& resolved, const World& world);

// `group` for tensors on those devices: on CUDA by NCCL, or with parallel.backend=mpi through the host. All its ranks
// call it.
Group group_for(const Group& group, const Config& resolved, Device device);

// Null without record.profile_steps. Throws UsageError where kernels cannot be recorded.
std::unique_ptr<KernelProfile> kernel_profile_for(const Config& resolved, Device device);

// Of the device's data sheet; 0 where it is not in the table of docs/planning.md.
double dense_tflops_bf16(Device device);

}  // namespace lt
