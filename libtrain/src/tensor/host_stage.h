// Bytes on their way between the host and a device, in memory that both reach: on CUDA pinned, so that neither waits
// for the other; on the CPU and on meta plain.
#pragma once

#include <memory>

#include "libtrain/tensor.h"

namespace lt {

class HostStage {
 public:
  HostStage(Device device, Size bytes);

  Size bytes() const { return bytes_; }
  // The values of `from`, contiguous on the CPU, go to `to` in the order of the compute stream; `from` may change when
  // it returns. Waits until the last use of this stage is over.
  void send(const Tensor& to, const Tensor& from);
  // Those of `from`, on the device, come to the host.
  void receive(const Tensor& from);
  // What receive() asked for; waits until it is there. Until the next use.
  const void* received() const;

 private:
  Device device_;
  Size bytes_;
  std::shared_ptr<void> memory_;
  Event done_;
};

}  // namespace lt
