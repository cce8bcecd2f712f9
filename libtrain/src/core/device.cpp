// Devices by name, and which of them this build and machine have. Streams and events of the CPU and of meta are program
// order.
#include "libtrain/device.h"

#include "libtrain/error.h"

namespace lt {

std::string to_string(Device device) {
  switch (device.type) {
    case DeviceType::cpu: return "cpu";
    case DeviceType::cuda: return "cuda:" + std::to_string(device.index);
    case DeviceType::meta: return "meta";
  }
  return "?";
}

bool has_device(DeviceType type) { return type != DeviceType::cuda; }

void require_device(Device device) {
  if (!has_device(device.type)) {
    throw UsageError("device", "device " + to_string(device) + " is not in this build: it has cpu and meta",
                     "choose cpu");
  }
}

void Stream::wait(const Event&) {}
void Event::record(Stream&) {}

}  // namespace lt
