// What the library asks of CUDA devices beside kernels: memory, streams, events and copies. In a build without CUDA
// (no_cuda.cpp) there are no devices, and nothing else is called.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::cuda {

bool is_built();
// Why device `index` cannot be used; empty where it can.
std::string why_not(int index);

inline constexpr int kMostDevices = 64;  // that a process uses
int count();                             // of devices
std::string bus_id(int device);          // tells the devices of a host apart, "0000:1b:00.0"
std::string name(int device);            // as the driver says it
double multiply_add_flops(int device);   // f32, FLOP/s that its multiprocessors start at their highest clock
std::string driver_version();            // of CUDA that the driver serves, "13.0"; empty where there is none

std::shared_ptr<void> create_stream(int device);
// The stream of all operations; it lives as long as the process.
const std::shared_ptr<void>& compute_stream(int device);
std::shared_ptr<void> create_event(int device);
// A cudaEvent_t, which is no stream.
struct EventHandle {
  void* handle;
};
void record(EventHandle event, CudaStream stream);
void wait(CudaStream stream, EventHandle event);
// The host waits, as device/wait_checks.h has it.
void synchronize_event(EventHandle event);
void synchronize_stream(CudaStream stream);
// An event that knows its time, recorded in `stream`; it is kept for the next one who asks when its last user lets go
// of it. Recorded while a graph is captured it has a time after each launch of the graph, and again after the next.
std::shared_ptr<void> record_timed(CudaStream stream);
bool is_event_reached(EventHandle event);
// Milliseconds from `begin` to `end`, both recorded; waits until they are reached.
double elapsed_ms(EventHandle begin, EventHandle end);

// Writes `value` to a word of pinned memory when the stream comes there, in graphs too; the host sees it at once.
// False, and nothing happens, where driver or device cannot.
bool write_word(std::uint32_t* word, std::uint32_t value, CudaStream stream);

// Its later work waits so long, and nobody else; for tests.
void sleep(CudaStream stream, std::chrono::milliseconds time);

void* allocate(int device, Size bytes);  // throws InternalError where there are no `bytes` bytes
void deallocate(int device, void* block);
// Host memory that a device reads and writes without help of the processor. It is not freed while an exception passes,
// since that waits for the device. Throws InternalError.
std::shared_ptr<void> allocate_pinned(int device, Size bytes);
// The same for memory that is there already, as long as the returned handle lives.
std::shared_ptr<void> pin(int device, void* memory, Size bytes);

struct DeviceMemory {
  Size used = 0, total = 0;  // bytes, by all processes
};
DeviceMemory memory(int device);

// What `body` gives to the stream, and to streams that wait for it meanwhile and for which it waits again, as a graph
// that can be launched; nothing of it runs yet. Where `body` throws there is none.
std::shared_ptr<void> capture(CudaStream stream, const std::function<void()>& body);
void launch(void* graph, CudaStream stream);
// Whether what is given to the stream is written down for a graph instead of run.
bool is_capturing(CudaStream stream);

// In stream order; `host` sides of pageable memory make the call wait for what is before it.
void copy(void* to, const void* from, Size bytes, CudaStream stream);

}  // namespace lt::cuda
