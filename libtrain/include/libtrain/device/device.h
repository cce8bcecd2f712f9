// Devices, streams and events. Work on one stream runs in order; an event orders work across streams. The CPU and
// `meta` have one stream, which runs in program order, so their events are reached at once.
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

// The meta device for planning work on `device`. Its index holds the planned device type, because kernels of each type
// need different workspaces. kMeta plans work on the CPU.
constexpr Device meta_for(Device device) {
  return device.is_meta() ? device : Device{DeviceType::meta, static_cast<int>(device.type)};
}
// The device type whose kernels run; for meta, the planned type.
constexpr DeviceType target_of(Device device) {
  return device.is_meta() ? static_cast<DeviceType>(device.index) : device.type;
}

// "cpu", "cuda:1", "meta".
std::string to_string(Device device);

// True if this build supports devices of the type.
bool has_device(DeviceType type);
// cuda if this build and this machine support it, otherwise cpu.
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

// An ordered queue of work on a device. Copies share the queue.
class Stream {
 public:
  // Creates a queue. On the CPU and meta, all streams are the same one.
  explicit Stream(Device device = kCpu);
  // The queue on which the operations of `device` run; one for each device.
  static Stream compute(Device device);
  // Creates a queue of high priority: its kernels get free multiprocessors before the kernels of other queues. For
  // short work that other queues wait for.
  static Stream urgent(Device device);

  Device device() const { return device_; }
  CudaStream cuda() const { return {handle_.get(), device_.index}; }
  // Makes later work of this stream start after `event` is reached. Does not block.
  void wait(const Event& event) const;
  // Blocks until all work of the stream is done.
  void synchronize() const;

 private:
  Device device_;
  std::shared_ptr<void> handle_;  // null unless on CUDA
};

// A point in a stream, reached when all work before it is done. Before the first record(), an event is always reached.
class Event {
 public:
  // Sets the event to the end of the work that `stream` holds now.
  void record(const Stream& stream);
  // Blocks until the event is reached.
  void synchronize() const;

 private:
  friend class Stream;
  std::shared_ptr<void> handle_;  // null unless on CUDA
};

// The time at which a stream finishes the work that it holds when on() is called. Copies share the time.
class TimePoint {
 public:
  // An unset time point.
  TimePoint() = default;
  // The end of the work that `stream` holds now.
  static TimePoint on(const Stream& stream);
  // Milliseconds from `earlier`, on the same device, to this time point. Blocks until both are reached.
  double ms_since(const TimePoint& earlier) const;
  // True if the time point is reached. Does not block.
  bool is_over() const;

 private:
  std::chrono::steady_clock::time_point time_{};  // not on CUDA
  std::shared_ptr<void> event_;                   // null unless on CUDA
};

}  // namespace lt
