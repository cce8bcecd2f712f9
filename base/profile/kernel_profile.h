// Records the work of a CUDA device kernel by kernel, through CUPTI. In a build without CUPTI (no_kernel_profile.cpp),
// make_kernel_profile() throws.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::profile {

enum class DeviceWork { kernel, memcpy, memset };

struct KernelRecord {
  DeviceWork kind = DeviceWork::kernel;
  std::string name;                 // demangled name; kernels only
  Size stream = 0;                  // CUDA's number for the stream
  Size bytes = -1;                  // memcpy and memset only
  double begin_us = 0, end_us = 0;  // since mark()
};

struct KernelRecords {
  std::vector<KernelRecord> records;  // in order of their begin
  Size lost = 0;                      // records for which CUPTI had no space or no times
  double error_us = 0;                // largest error of the times, measured against the compute stream's time points
};

// Profiles one device; a process has one profile at a time. Call start(), mark(), do the work, call stop(), and repeat.
class KernelProfile {
 public:
  virtual ~KernelProfile() = default;
  // Waits for the device, then records all work that is enqueued on it.
  virtual void start() = 0;
  // Sets the origin of the times and returns it. Takes about 0.1 ms on the compute stream.
  virtual TimePoint mark() = 0;
  // Waits for the device and stops recording. If CUPTI's times cannot be related to mark(), all records are counted in
  // `lost`.
  virtual KernelRecords stop() = 0;
};

// The bytes of device memory that start(), mark() and stop() overwrite.
inline constexpr Size kKernelProfileBytes = (Size{64} << 20) - 4;

// `memory` holds kKernelProfileBytes bytes on `device`. Between start(), mark() and stop(), work on the compute stream
// may use it. Makes one trial profile. Throws UsageError if CUPTI is not found or does not record in this process.
std::unique_ptr<KernelProfile> make_kernel_profile(Device device, std::byte* memory);

}  // namespace lt::profile
