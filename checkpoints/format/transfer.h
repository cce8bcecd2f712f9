// Moves values between files and tensors. On the CPU, files are read into tensors and written from tensors directly. To
// and from a CUDA device, values pass through two pinned buffers of one block each: one is filled while the other is
// emptied. So little host memory is needed, for a state of any size.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "libtrain/device/device.h"
#include "libtrain/tensor/shard_map.h"

namespace lt::checkpoint {

// Returns the one device that holds the ranges' values; the CPU if all ranges are empty.
Device device_of(const std::vector<StateRange>& ranges);

class Transfer {
 public:
  // Its copies start after the work now enqueued on the device's compute stream.
  explicit Transfer(Device device = kCpu);
  // Waits for the device.
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // True if values can be read directly into the tensors.
  bool in_place() const { return device_.type == DeviceType::cpu; }
  // Returns host memory for a block of values. The caller may use it until the next call.
  void* buffer();
  // Copies `bytes` bytes from `from`, which must lie in the last buffer(), to `to`.
  void send(void* to, const void* from, Size bytes);
  // Waits until everything sent has arrived.
  void finish();

  // Calls visit(values on the host, bytes) for each block of `values`, which must be on this device.
  void for_each_block(const Tensor& values, const std::function<void(const void*, Size)>& visit);

 private:
  struct Pinned {
    std::shared_ptr<void> memory;
    Event done;  // the last copy from or to `memory`
  };

  // Makes the stream wait for the work now enqueued on the device's compute stream.
  void follow_compute();
  // Starts to copy values from the device to the buffer that is not in use.
  void fetch(const std::byte* from, Size bytes);
  // Returns the buffer in use once its last copy is done.
  void* current();

  Device device_;
  std::shared_ptr<void> own_;  // CPU only
  Stream stream_;
  std::array<Pinned, 2> pinned_;
  std::size_t turn_ = 0;
};

}  // namespace lt::checkpoint
