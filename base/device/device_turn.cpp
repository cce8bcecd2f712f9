// One lock per device.
#include "device/device_turn.h"

#include <map>

namespace lt::device {
namespace {

std::recursive_mutex& turn_of(int device) {
  static std::mutex mutex;
  static auto& turns = *new std::map<int, std::recursive_mutex>;  // never destroyed: objects destroyed late use it
  const std::lock_guard lock(mutex);
  return turns[device];
}

}  // namespace

DeviceTurn::DeviceTurn(Device device) {
  if (device.type == DeviceType::cuda) lock_ = std::unique_lock(turn_of(device.index));
}

}  // namespace lt::device
