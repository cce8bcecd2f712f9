// Chooses each rank's device by its local rank.
#include "run/rank_device.h"

#include <fmt/format.h>

#include "device/cuda.h"
#include "libtrain/error.h"
#include "memory/workspace.h"
#include "plan/device_model.h"

namespace lt::run {

EngineOptions step_options_of_rank(const Resolved& resolved, const World& world) {
  EngineOptions options = resolved.step;
  if (options.device.type != DeviceType::cuda) return options;
  options.device = world.device(DeviceType::cuda);
  try {
    require_device(options.device);
  } catch (const UsageError& error) {
    throw UsageError("config", "train.device", "a device of this host", std::string("cuda: ") + error.what(),
                     has_device(DeviceType::cuda) ? "one rank for each device of the host, or --train.device=cpu"
                                                  : "configure with -DLIBTRAIN_CUDA=ON, or --train.device=cpu");
  }
  return options;
}

std::unique_ptr<profile::KernelProfile> kernel_profile_for(Size profile_steps, Device device) {
  if (profile_steps == 0) return nullptr;
  std::byte* const memory = device.type == DeviceType::cuda
                                ? memory::scratch(Stream::compute(device).cuda(), profile::kKernelProfileBytes)
                                : nullptr;
  try {
    return profile::make_kernel_profile(device, memory);
  } catch (const UsageError& error) {
    throw UsageError("config", "record.profile_steps", "0 where kernels cannot be recorded",
                     fmt::format("{}: {}", profile_steps, error.what()), error.hint());
  }
}

Group group_for(const Group& group, CommBackend backend, Device device) {
  if (device.type != DeviceType::cuda || group.size() == 1) return group;
  if (backend == CommBackend::mpi) return group.through_host(device);
  return group.with_nccl(device);
}

double dense_tflops_bf16(Device device) {
  if (device.type != DeviceType::cuda) return 0;
  return planner::dense_tflops_bf16(device::cuda::name(device.index));
}

}  // namespace lt::run
