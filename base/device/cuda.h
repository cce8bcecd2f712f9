// The library's access to CUDA devices, except kernels: memory, streams, events and copies. A build without CUDA
// (no_cuda.cpp) has no devices, so functions that need one are never called.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::device::cuda {

bool is_built();
// Returns why device `index` cannot be used; empty if it can.
std::string why_not(int index);

inline constexpr int kMostDevices = 64;  // that a process can use
int count();                             // number of devices, at most kMostDevices
std::string bus_id(int device);          // unique among the devices of a host, "0000:1b:00.0"
std::string name(int device);            // from the driver
int compute_capability(int device);      // 90 for 9.0
Size total_memory(int device);           // bytes; makes no context on the device
bool can_access(int device, int other);  // true if it can read and write the other's memory
double multiply_add_flops(int device);   // peak f32 FLOP/s of its multiprocessors, at their highest clock
std::string driver_version();            // CUDA version that the driver supports, "13.0"; empty without a driver

// Kernels of an `urgent` stream get free multiprocessors first.
std::shared_ptr<void> create_stream(int device, bool urgent = false);
// The stream on which all operations run. It lives as long as the process.
const std::shared_ptr<void>& compute_stream(int device);
std::shared_ptr<void> create_event(int device);
// A cudaEvent_t. A separate type, so that events and streams cannot be confused.
struct EventHandle {
  void* handle;
};
void record(EventHandle event, CudaStream stream);
void wait(CudaStream stream, EventHandle event);
// The synchronize functions block the host. While they wait, they run the checks of device/wait_checks.h.
void synchronize_event(EventHandle event);
void synchronize_stream(CudaStream stream);
// Records a timed event on `stream`. When its last owner releases it, the event is kept for reuse. If recorded during a
// graph capture, it gets a new time at each launch of the graph.
std::shared_ptr<void> record_timed(CudaStream stream);
bool is_event_reached(EventHandle event);
// Milliseconds from `begin` to `end`. Both must be recorded; waits until they are reached.
double elapsed_ms(EventHandle begin, EventHandle end);

// Writes `value` to a word of pinned memory when the stream reaches this point; works in graphs, and the host sees it
// at once. Returns false and does nothing if the driver or device does not support it. Throws InternalError on other
// failures.
bool write_word(std::uint32_t* word, std::uint32_t value, CudaStream stream);

// Makes later work on the stream wait until each word, in device memory, is 1, and resets the words to 0. Occupies no
// multiprocessor; works in graphs. Throws InternalError.
void wait_and_clear(const std::vector<std::uint32_t*>& words, CudaStream stream);

// Delays later work on this stream only. Used by fault injection.
void sleep(CudaStream stream, std::chrono::milliseconds time);

void* allocate(int device, Size bytes);  // throws InternalError if memory runs out
void deallocate(int device, void* block);
// Allocates pinned host memory, which the device reads and writes directly. It is not freed during stack unwinding,
// because freeing waits for the device. Throws InternalError.
std::shared_ptr<void> allocate_pinned(int device, Size bytes);
// Pins existing, writable memory for the lifetime of the returned handle. No other thread may write to it during the
// call. Other CUDA calls block meanwhile: 20 ms per GB in huge pages, 45 ms in other pages. Throws InternalError.
std::shared_ptr<void> pin(int device, void* memory, Size bytes);

struct DeviceMemory {
  Size used = 0, total = 0;  // bytes, of all processes
};
DeviceMemory memory(int device);

// Captures the work that `body` enqueues on `stream`, and on streams that fork from it and join it again, into a graph
// for launch(). Nothing runs yet. `edit` may change the graph, a cudaGraph_t, before it is instantiated. If `body` or
// `edit` throws, no graph is made.
std::shared_ptr<void> capture(CudaStream stream, const std::function<void()>& body,
                              void (*edit)(void* graph) = nullptr);
void launch(void* graph, CudaStream stream);
enum class GraphNodeKind : std::uint8_t { memset, allocation, other };  // `allocation` is also a node that frees memory
// Returns the kind of a cudaGraphNode_t. Asks the driver, because the runtime does not know nodes that wait for or
// write words. Throws InternalError.
GraphNodeKind kind_of_node(void* node);
// True if work enqueued on the stream is captured into a graph instead of being run.
bool is_capturing(CudaStream stream);

// Copies in stream order. If either side is pageable host memory, the call waits for earlier work on the stream.
void copy(void* to, const void* from, Size bytes, CudaStream stream);

}  // namespace lt::device::cuda
