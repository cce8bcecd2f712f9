// Host memory for transfers to and from a device. On CUDA it is pinned, so that neither side waits for the other.
#pragma once

#include <memory>

#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

class HostStage {
 public:
  HostStage(Device device, Size bytes);

  void* data() const { return memory_.get(); }
  Size bytes() const { return bytes_; }
  // Enqueues a copy of the first bytes to `to`, a contiguous tensor on the device. It runs in the order of the compute
  // stream, so the caller must wait for that stream before it writes the memory again. Does nothing on meta.
  void send(const Tensor& to) const;
  // Enqueues a copy of `from`'s values to the first bytes, in the same order. The caller must wait before it reads
  // them.
  void receive(const Tensor& from) const;

 private:
  Device device_;
  Size bytes_;
  std::shared_ptr<void> memory_;
};

}  // namespace lt::tensor
