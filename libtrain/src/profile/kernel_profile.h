// What a CUDA device itself does, kernel by kernel, as CUPTI records it. A build without CUPTI (no_kernel_profile.cpp)
// makes no profile.
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
  std::string name;                 // of a kernel: demangled
  Size stream = 0;                  // CUDA's number of it
  Size bytes = -1;                  // of a memcpy or memset
  double begin_us = 0, end_us = 0;  // since the moment of mark()
};

struct KernelRecords {
  std::vector<KernelRecord> records;  // in the order in which they began
  Size lost = 0;                      // of which CUPTI had no space or no times
  double error_us = 0;                // at most so far are the times from those of moments of the compute stream
};

// Of one device; a process has one at a time. start(), mark(), the work, stop(), and again.
class KernelProfile {
 public:
  virtual ~KernelProfile() = default;
  // Waits for the device, and records what is given to it from then on.
  virtual void start() = 0;
  // The moment since which times count; on the stream that computes, where it takes some 0.1 ms.
  virtual TimePoint mark() = 0;
  // Waits for the device; nothing more is recorded. All `lost` where the times cannot be told.
  virtual KernelRecords stop() = 0;
};

// Bytes of the device that start(), mark() and stop() overwrite.
inline constexpr Size kKernelProfileBytes = (Size{64} << 20) - 4;

// `memory` has kKernelProfileBytes on `device`, which the work of its compute stream may use in between. Tries it once.
// Throws UsageError where CUPTI is not found, or does not record in this process.
std::unique_ptr<KernelProfile> make_kernel_profile(Device device, std::byte* memory);

}  // namespace lt
