// Chooses each rank's device, and its group and kernel profile on that device.
#include "train/rank_device.h"

#include "device/cuda.h"
#include "libtrain/error.h"
#include "memory/workspace.h"
#include "train/device_model.h"
#include "train/origin.h"

namespace lt {

StepOptions step_options_of_rank(const Config& resolved, const World& world) {
  StepOptions options = step_options(resolved);
  if (options.device.type != DeviceType::cuda) return options;
  options.device = world.device(DeviceType::cuda);
  name_origin(resolved, [&] {
    try {
      require_device(options.device);
    } catch (const UsageError& error) {
      throw UsageError("config", std::string("train.device: ") + error.what(),
                       has_device(DeviceType::cuda) ? "one rank for each device of the host, or --train.device=cpu"
                                                    : "configure with -DLIBTRAIN_CUDA=ON, or --train.device=cpu");
    }
  });
  return options;
}

std::unique_ptr<KernelProfile> kernel_profile_for(const Config& resolved, Device device) {
  if (resolved.record.profile_steps == 0) return nullptr;
  std::unique_ptr<KernelProfile> profile;
  std::byte* const memory =
      device.type == DeviceType::cuda ? cuda::scratch(Stream::compute(device).cuda(), kKernelProfileBytes) : nullptr;
  name_origin(resolved, [&] {
    try {
      profile = make_kernel_profile(device, memory);
    } catch (const UsageError& error) {
      throw UsageError("config", std::string("record.profile_steps: ") + error.what(), error.hint());
    }
  });
  return profile;
}

Group group_for(const Group& group, const Config& resolved, Device device) {
  if (device.type != DeviceType::cuda || group.size() == 1) return group;
  if (resolved.parallel.backend == "mpi") return group.through_host(device);
  return group.with_nccl(device);
}

double dense_tflops_bf16(Device device) {
  if (device.type != DeviceType::cuda) return 0;
  return dense_tflops_bf16(cuda::name(device.index));
}

}  // namespace lt
