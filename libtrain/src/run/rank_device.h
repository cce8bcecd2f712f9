// Chooses the device of each rank, and the group and kernel profile for it.
#pragma once

#include <memory>

#include "libtrain/comm/world.h"
#include "libtrain/config/resolved.h"
#include "libtrain/parallel/engine.h"
#include "profile/kernel_profile.h"

namespace lt::run {

// Returns the options of a step with the device of this rank. On CUDA each rank of a host has a different device.
// Throws UsageError if this rank's device does not exist.
EngineOptions step_options_of_rank(const Resolved& resolved, const World& world);

// Returns `group` for tensors on `device`: on CUDA through NCCL, or through the host with parallel.backend=mpi. All
// ranks of `group` must call it.
Group group_for(const Group& group, CommBackend backend, Device device);

// Returns null without record.profile_steps. Throws UsageError if kernels cannot be recorded.
std::unique_ptr<profile::KernelProfile> kernel_profile_for(Size profile_steps, Device device);

// The device's dense bf16 peak in TFLOP/s, from the data sheet; 0 if the device is not in the table of
// docs/explanation/planning.md.
double dense_tflops_bf16(Device device);

}  // namespace lt::run
