// Memory of the host whose bytes go to a device and come from it: on CUDA pinned, so that neither waits for the other.
#pragma once

#include <memory>

#include "libtrain/tensor/tensor.h"

namespace lt {

class HostStage {
 public:
  HostStage(Device device, Size bytes);

  void* data() const { return memory_.get(); }
  Size bytes() const { return bytes_; }
  // Its first bytes become the values of `to`, contiguous and on the device; in the order of the stream that computes,
  // so whoever writes the memory waits for that. Nothing on meta.
  void send(const Tensor& to) const;
  // The values of `from` become its first bytes.
  void receive(const Tensor& from) const;

 private:
  Device device_;
  Size bytes_;
  std::shared_ptr<void> memory_;
};

}  // namespace lt
