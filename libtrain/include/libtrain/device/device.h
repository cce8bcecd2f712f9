// Devices, streams and events. Work on one stream runs in order; an event orders work across streams.
// On the CPU and on `meta` there is one stream, program order, so events hold at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "libtrain/api.h"

namespace LT_API lt {

enum class DeviceType : std::uint8_t {
  cpu,
  cuda,
  meta,  // shapes only: no data, no kernels; every allocation is counted
};

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  bool operator==(const Device&) const = default;
  constexpr bool is_meta() const { return type == DeviceType::meta; }
};

inline constexpr Device kCpu{DeviceType::cpu, 0};
inline constexpr Device kMeta{DeviceType::meta, 0};

// The meta device for planning work on `device`. Its index is the device type that it stands for, since kernels of each
// type need different workspaces. kMeta stands for the CPU.
constexpr Device meta_for(Device device) {
  return device.is_meta() ? device : Device{DeviceType::meta, static_cast<int>(device.type)};
}
// The type of device that kernels run on; for meta, the type that it stands for.
constexpr DeviceType target_of(Device device) {
  return device.is_meta() ? static_cast<DeviceType>(device.index) : device.type;
}

// "cpu", "cuda:1", "meta".
std::string to_string(Device device);

// Whether this build has devices of the type.
bool has_device(DeviceType type);
// cuda if this build supports it and this machine has such a device, else cpu.
DeviceType best_device();
// Throws UsageError unless this build supports the device and this machine has it.
void require_device(Device device);

// The stream that a CPU kernel is launched on: the calling thread and its OpenMP team.
struct CpuStream {};
// The stream that a CUDA kernel is launched on.
struct CudaStream {
  void* handle = nullptr;  // a cudaStream_t
  int device = 0;
};

class Event;

// An ordered queue of work on a device. Copies name the same queue.
class Stream {
 public:
  // Creates a new queue. The CPU and meta have only one, program order.
  explicit Stream(Device device = kCpu);
  // The queue on which the operations of `device` run.
  static Stream compute(Device device);
  // A new queue whose kernels get free multiprocessors before those of other queues: for short work that other queues
  // wait for.
  static Stream urgent(Device device);

  Device device() const { return device_; }
  CudaStream cuda() const { return {handle_.get(), device_.index}; }
  // Later work of this stream starts after the work that `event` marks.
  void wait(const Event& event) const;
  // Blocks until all its work is done.
  void synchronize() const;

 private:
  Device device_;
  std::shared_ptr<void> handle_;  // null unless on CUDA
};

// A point in a stream. Before the first record() it counts as reached.
class Event {
 public:
  // Marks the work that `stream` holds now.
  void record(const Stream& stream);
  // Blocks until it is reached.
  void synchronize() const;

 private:
  friend class Stream;
  std::shared_ptr<void> handle_;  // null unless on CUDA
};

// The time at which a stream finished the work that it held when the time point was made. Copies name the same time.
class TimePoint {
 public:
  // No time.
  TimePoint() = default;
  static TimePoint on(const Stream& stream);
  // Milliseconds from `earlier`, on the same device, to this. Waits until both are reached.
  double ms_since(const TimePoint& earlier) const;
  // Whether it is reached. Does not wait.
  bool is_over() const;

 private:
  std::chrono::steady_clock::time_point time_{};  // unless on CUDA
  std::shared_ptr<void> event_;                   // null unless on CUDA
};

}  // namespace lt
