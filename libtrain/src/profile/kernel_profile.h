// The work of a CUDA device, kernel by kernel, as CUPTI records it. A build without CUPTI (no_kernel_profile.cpp) makes
// no profile.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt {

enum class DeviceWork { kernel, memcpy, memset };

struct KernelRecord {
  DeviceWork kind = DeviceWork::kernel;
  std::string name;                 // of a kernel, demangled
  Size stream = 0;                  // CUDA's number of the stream
  Size bytes = -1;                  // of a memcpy or memset
  double begin_us = 0, end_us = 0;  // since mark()
};

struct KernelRecords {
  std::vector<KernelRecord> records;  // in the order in which they began
  Size lost = 0;                      // for which CUPTI had no space or no times
  double error_us = 0;                // largest error of the times against the compute stream's time points
};

// Profiles one device; a process has one profile at a time. Call start(), mark(), do the work, call stop(), and repeat.
class KernelProfile {
 public:
  virtual ~KernelProfile() = default;
  // Waits for the device, then records what is enqueued on it.
  virtual void start() = 0;
  // The origin of the times, on the compute stream, where it takes about 0.1 ms.
  virtual TimePoint mark() = 0;
  // Waits for the device and stops recording. If the times cannot be related, all records count as `lost`.
  virtual KernelRecords stop() = 0;
};

// Bytes of device memory that start(), mark() and stop() overwrite.
inline constexpr Size kKernelProfileBytes = (Size{64} << 20) - 4;

// `memory` has kKernelProfileBytes on `device`; the compute stream's work may use it in between. Tries the profile
// once. Throws UsageError if CUPTI is not found or does not record in this process.
std::unique_ptr<KernelProfile> make_kernel_profile(Device device, std::byte* memory);

}  // namespace lt
