// The way of values from a file to a tensor. On the CPU they are read where they belong; to a CUDA device they go
// through two pinned buffers of one block each, of which one is filled while the other is copied. So a load takes the
// same little memory of the host whatever a rank's state is.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "libtrain/device.h"
#include "libtrain/dtype.h"

namespace lt::checkpoint {

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
  float* buffer();
  // to[0..count) = from[0..count), which lies in the last buffer().
  void send(float* to, const float* from, Size count);
  // Everything sent has arrived.
  void finish();

 private:
  struct Pinned {
    std::shared_ptr<void> memory;
    Event sent;
  };

  Device device_;
  std::vector<float> own_;  // on the CPU
  Stream stream_;
  std::array<Pinned, 2> pinned_;
  std::size_t turn_ = 0;
};

}  // namespace lt::checkpoint
