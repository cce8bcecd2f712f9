// The way of values between files and tensors. On the CPU files are read and written where the values belong; from and
// to a CUDA device they go through two pinned buffers of one block each, of which one is filled while the other is
// emptied. So they take the same little memory of the host whatever a rank's state is.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "libtrain/device/device.h"
#include "libtrain/tensor/shard_map.h"

namespace lt::checkpoint {

// The one device that holds the ranges' values; the CPU where all ranges are empty.
Device device_of(const std::vector<StateRange>& ranges);

class Transfer {
 public:
  // Starts after what the device's compute stream holds now.
  explicit Transfer(Device device = kCpu);
  // Waits for the device.
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Whether values may be read where they belong.
  bool in_place() const { return device_.type == DeviceType::cpu; }
  // Memory of the host for a block of values; it is the caller's until the next call.
  void* buffer();
  // `bytes` from `from`, which lies in the last buffer(), to `to`.
  void send(void* to, const void* from, Size bytes);
  // Everything sent has arrived.
  void finish();

  // Calls visit(values on the host, bytes) for each block of `values`, which are on this device.
  void for_each_block(const Tensor& values, const std::function<void(const void*, Size)>& visit);

 private:
  struct Pinned {
    std::shared_ptr<void> memory;
    Event done;  // the last copy from or to it
  };

  // The stream goes on after what the device's compute stream holds now.
  void follow_compute();
  // Begins to copy values from the device to the buffer that is not in use.
  void fetch(const std::byte* from, Size bytes);
  // The buffer in use, once it is done.
  void* current();

  Device device_;
  std::shared_ptr<void> own_;  // on the CPU
  Stream stream_;
  std::array<Pinned, 2> pinned_;
  std::size_t turn_ = 0;
};

}  // namespace lt::checkpoint
