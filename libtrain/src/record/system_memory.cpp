// Reads the memory of the process and the machine from the kernel, and the memory of CUDA devices from the driver.
#include "record/system_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "device/cgroup.h"
#include "device/cuda.h"

namespace lt::recorder {
namespace {

Size process_resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  Size total_pages = 0, resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

// 0 if the kernel does not say.
Size available_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string name, rest; info >> name; std::getline(info, rest)) {
    Size kib = 0;
    if (name == "MemAvailable:") return info >> kib ? kib << 10 : 0;
  }
  return 0;
}

}  // namespace

Size system_bytes_in_use(Device device) {
  return device.type == DeviceType::cuda ? device::cuda::memory(device.index).used : process_resident_bytes();
}

Size system_memory_bytes(Device device) {
  if (device.type == DeviceType::cuda) return device::cuda::memory(device.index).total;
  const Size machine = static_cast<Size>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  return std::min(machine, device::memory_limit_bytes().value_or(machine));
}

Size system_memory_available() {
  const Size machine = available_bytes();
  return std::min(machine, device::memory_left_bytes().value_or(machine));
}

}  // namespace lt::recorder
