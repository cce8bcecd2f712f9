// Copies between a device and host memory owned by the stage, in stream order.
#include "tensor/host_stage.h"

#include "device/copy_bytes.h"
#include "libtrain/error.h"
#include "tensor/host_memory.h"

namespace lt::tensor {
namespace {

void require(const Tensor& tensor, Size bytes) {
  if (tensor.is_contiguous() && tensor.bytes() <= bytes) return;
  throw InternalError("tensor", "expected a contiguous tensor of at most the stage's " + std::to_string(bytes) +
                                    " bytes, got one of " + std::to_string(tensor.bytes()));
}

}  // namespace

HostStage::HostStage(Device device, Size bytes) : device_(device), bytes_(bytes), memory_(host_memory(device, bytes)) {}

void HostStage::send(const Tensor& to) const {
  require(to, bytes_);
  if (!device_.is_meta() && to.bytes() > 0) device::copy_bytes(device_, to.data(), memory_.get(), to.bytes());
}

void HostStage::receive(const Tensor& from) const {
  require(from, bytes_);
  if (!device_.is_meta() && from.bytes() > 0) device::copy_bytes(device_, memory_.get(), from.data(), from.bytes());
}

}  // namespace lt::tensor
