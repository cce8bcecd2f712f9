// Device names, the devices that this build and machine have, and their streams and events. On the CPU and on meta,
// streams and events follow program order.
#include "libtrain/device/device.h"

#include "device/cuda.h"
#include "libtrain/error.h"

namespace lt {

std::string to_string(Device device) {
  switch (device.type) {
    case DeviceType::cpu: return "cpu";
    case DeviceType::cuda: return "cuda:" + std::to_string(device.index);
    case DeviceType::meta: return "meta";
  }
  return "?";
}

bool has_device(DeviceType type) { return type != DeviceType::cuda || device::cuda::is_built(); }

DeviceType best_device() {
  static const bool has_cuda = device::cuda::is_built() && device::cuda::why_not(0).empty();
  return has_cuda ? DeviceType::cuda : DeviceType::cpu;
}

void require_device(Device device) {
  if (device.type != DeviceType::cuda) return;
  // Cached: asking the driver takes time, and every tensor needs the answer.
  thread_local int known = -1;
  if (device.index == known) return;
  if (const std::string reason = device::cuda::why_not(device.index); !reason.empty()) {
    throw UsageError("device", "device " + to_string(device) + " " + reason, "choose cpu");
  }
  known = device.index;
}

Stream::Stream(Device device) : device_(device) {
  if (device.type == DeviceType::cuda) handle_ = device::cuda::create_stream(device.index);
}

Stream Stream::urgent(Device device) {
  Stream stream;
  stream.device_ = device;
  if (device.type == DeviceType::cuda) stream.handle_ = device::cuda::create_stream(device.index, true);
  return stream;
}

Stream Stream::compute(Device device) {
  Stream stream;
  stream.device_ = device;
  if (device.type == DeviceType::cuda) stream.handle_ = device::cuda::compute_stream(device.index);
  return stream;
}

void Stream::wait(const Event& event) const {
  if (handle_ && event.handle_) device::cuda::wait(cuda(), {event.handle_.get()});
}

void Stream::synchronize() const {
  if (handle_) device::cuda::synchronize_stream(cuda());
}

void Event::record(const Stream& stream) {
  if (stream.device().type != DeviceType::cuda) return;
  if (!handle_) handle_ = device::cuda::create_event(stream.device().index);
  device::cuda::record({handle_.get()}, stream.cuda());
}

void Event::synchronize() const {
  if (handle_) device::cuda::synchronize_event({handle_.get()});
}

TimePoint TimePoint::on(const Stream& stream) {
  TimePoint point;
  if (stream.device().type == DeviceType::cuda) {
    point.event_ = device::cuda::record_timed(stream.cuda());
  } else {
    point.time_ = std::chrono::steady_clock::now();
  }
  return point;
}

double TimePoint::ms_since(const TimePoint& earlier) const {
  if (event_) return device::cuda::elapsed_ms({earlier.event_.get()}, {event_.get()});
  return std::chrono::duration<double, std::milli>(time_ - earlier.time_).count();
}

bool TimePoint::is_over() const { return !event_ || device::cuda::is_event_reached({event_.get()}); }

}  // namespace lt
