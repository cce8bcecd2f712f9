// Copies in stream order, through memory that the stage holds.
#include "tensor/host_stage.h"

#include <cstring>

#include "core/cuda.h"
#include "libtrain/error.h"

namespace lt {
namespace {

std::shared_ptr<void> host_memory(Device device, Size bytes) {
  if (device.type == DeviceType::cuda) return cuda::allocate_pinned(bytes);
  return std::shared_ptr<std::byte[]>(new std::byte[static_cast<std::size_t>(bytes)]());
}

}  // namespace

HostStage::HostStage(Device device, Size bytes) : device_(device), bytes_(bytes), memory_(host_memory(device, bytes)) {}

void HostStage::send(const Tensor& to, const Tensor& from) {
  if (from.bytes() > bytes_ || to.bytes() != from.bytes() || !from.is_contiguous()) {
    throw InternalError("tensor", "stage of " + std::to_string(bytes_) +
                                      " bytes: expected as many contiguous bytes on both sides, " +
                                      std::to_string(from.bytes()) + " go to " + std::to_string(to.bytes()));
  }
  if (device_.is_meta() || from.bytes() == 0) return;
  done_.synchronize();
  std::memcpy(memory_.get(), from.data(), static_cast<std::size_t>(from.bytes()));
  if (device_.type != DeviceType::cuda) {
    std::memcpy(to.data(), memory_.get(), static_cast<std::size_t>(from.bytes()));
    return;
  }
  const Stream stream = Stream::compute(device_);
  cuda::copy(to.data(), memory_.get(), from.bytes(), stream.cuda());
  done_.record(stream);
}

void HostStage::receive(const Tensor& from) {
  if (from.bytes() > bytes_) {
    throw InternalError(
        "tensor", "stage of " + std::to_string(bytes_) + " bytes: " + std::to_string(from.bytes()) + " are to come");
  }
  if (device_.is_meta()) return;
  if (device_.type != DeviceType::cuda) {
    std::memcpy(memory_.get(), from.data(), static_cast<std::size_t>(from.bytes()));
    return;
  }
  const Stream stream = Stream::compute(device_);
  cuda::copy(memory_.get(), from.data(), from.bytes(), stream.cuda());
  done_.record(stream);
}

const void* HostStage::received() const {
  done_.synchronize();
  return memory_.get();
}

}  // namespace lt
