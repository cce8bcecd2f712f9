// CUDA devices through the runtime API. Every function that depends on the current device sets it first.
#include "device/cuda.h"

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "device/cuda_driver.h"
#include "device/cuda_error.h"
#include "device/host_pages.h"
#include "device/wait_checks.h"
#include "libtrain/error.h"

namespace lt::device::cuda {
namespace {

// Per-device state. It lives until the process ends, when the driver reclaims it.
struct DeviceState {
  std::once_flag once;
  std::shared_ptr<void> compute;
  std::mutex mutex;
  std::vector<cudaEvent_t> timed_events;  // not in use
};

DeviceState& state(int device) {
  static auto& states = *new std::array<DeviceState, kMostDevices>;
  DeviceState& entry = states[static_cast<std::size_t>(device)];
  std::call_once(entry.once, [&] { entry.compute = create_stream(device); });
  return entry;
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

// Releases the handle on any thread, with the handle's own device current. A thread that has set no device would first
// create a context on device 0: half a gigabyte, maybe on another rank's GPU, while everything else waits.
template <class Release>
std::shared_ptr<void> owned(int device, void* handle, Release release) {
  return {handle, [device, release](void* h) {
            cudaSetDevice(device);
            release(h);
          }};
}

thread_local bool captures = false;  // within capture()

// From this size on, pages are mapped before they are pinned. cudaMallocHost() takes 0.4 s for each GB, and other calls
// wait for it.
constexpr Size kLeastOwnPages = Size{1} << 26;

void register_pages(int device, void* memory, Size bytes) {
  LT_CUDA(cudaSetDevice(device));
  LT_CUDA(cudaHostRegister(memory, static_cast<std::size_t>(bytes), cudaHostRegisterPortable));
}

// Gives pinned memory up with `release`, but not during stack unwinding: the call waits for the device, and the device
// may wait for a dead peer. The pages then stay mapped too, or the driver would take other memory at their addresses
// for them.
template <class Release>
std::shared_ptr<void> owned_pinned(int device, void* memory, Release release) {
  return owned(device, memory, [release](void* pinned) {
    if (std::uncaught_exceptions() == 0) release(pinned);
  });
}

std::shared_ptr<void> allocate_pinned_pages(int device, Size bytes) {
  void* const pages = map_pages(bytes);
  try {
    register_pages(device, pages, bytes);
  } catch (...) {
    unmap_pages(pages, bytes);
    throw;
  }
  return owned_pinned(device, pages, [bytes](void* memory) {
    cudaHostUnregister(memory);
    unmap_pages(memory, bytes);
  });
}

// Interprets the result of cudaStreamQuery() or cudaEventQuery().
bool is_reached(cudaError_t answer, const char* call) {
  if (answer == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // not an error, but the next launch check would report it
    return false;
  }
  check(answer, call);
  return true;
}

void synchronize(cudaEvent_t event) {
  if (captures) return LT_CUDA(cudaEventSynchronize(event));
  wait_until([=] { return is_reached(cudaEventQuery(event), "cudaEventQuery"); });
}

}  // namespace

void fail(cudaError_t code, const char* call) {
  throw InternalError("cuda", std::string(call) + ": " + cudaGetErrorString(code));
}

bool is_built() { return true; }

int count() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? std::min(devices, kMostDevices) : 0;
}

std::string why_not(int index) {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  // CUDA reports a driver that is too old and a missing one with the same error.
  const bool no_driver = code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice;
  if (no_driver) return "is not there: no GPU was found, or its driver is older than this build's CUDA";
  if (code != cudaSuccess) return std::string("cannot be used: ") + cudaGetErrorString(code);
  if (index < 0 || index >= std::min(devices, kMostDevices)) {
    return "is not there: this host has " + std::to_string(devices) + " CUDA device" + (devices == 1 ? "" : "s");
  }
  int major = 0, minor = 0;
  LT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
  LT_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
  if (10 * major + minor < LIBTRAIN_LEAST_ARCHITECTURE) {
    return "has compute capability " + std::to_string(major) + "." + std::to_string(minor) + ", this build is for " +
           std::to_string(LIBTRAIN_LEAST_ARCHITECTURE / 10) + "." + std::to_string(LIBTRAIN_LEAST_ARCHITECTURE % 10) +
           " and later: configure with -DCMAKE_CUDA_ARCHITECTURES=" + std::to_string(10 * major + minor);
  }
  return {};
}

std::string bus_id(int device) {
  std::array<char, 32> text{};
  LT_CUDA(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device));
  return text.data();
}

std::string name(int device) {
  cudaDeviceProp properties{};
  LT_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

int compute_capability(int device) {
  int major = 0, minor = 0;
  LT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  LT_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

Size total_memory(int device) {
  cudaDeviceProp properties{};
  LT_CUDA(cudaGetDeviceProperties(&properties, device));
  return static_cast<Size>(properties.totalGlobalMem);
}

bool can_access(int device, int other) {
  int can = 0;
  LT_CUDA(cudaDeviceCanAccessPeer(&can, device, other));
  return can != 0;
}

double multiply_add_flops(int device) {
  constexpr double kLanes = 128, kFlops = 2;  // per multiprocessor, from compute capability 8.6 on, 9.0 included
  int multiprocessors = 0, kilohertz = 0;
  LT_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  LT_CUDA(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device));
  return multiprocessors * kLanes * kFlops * kilohertz * 1e3;
}

std::string driver_version() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return {};
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::shared_ptr<void> create_stream(int device, bool urgent) {
  LT_CUDA(cudaSetDevice(device));
  cudaStream_t stream = nullptr;
  int least = 0, greatest = 0;
  LT_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  LT_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least));
  return owned(device, stream, [](void* handle) { cudaStreamDestroy(stream_of(handle)); });
}

const std::shared_ptr<void>& compute_stream(int device) {
  DeviceState& entry = state(device);
  LT_CUDA(cudaSetDevice(device));
  return entry.compute;
}

std::shared_ptr<void> create_event(int device) {
  LT_CUDA(cudaSetDevice(device));
  cudaEvent_t event = nullptr;
  LT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return owned(device, event, [](void* handle) { cudaEventDestroy(event_of(handle)); });
}

std::shared_ptr<void> record_timed(CudaStream stream) {
  DeviceState& entry = state(stream.device);
  cudaEvent_t event = nullptr;
  {
    const std::lock_guard lock(entry.mutex);
    if (!entry.timed_events.empty()) event = entry.timed_events.back(), entry.timed_events.pop_back();
  }
  if (event == nullptr) {
    LT_CUDA(cudaSetDevice(stream.device));
    LT_CUDA(cudaEventCreate(&event));
  }
  const unsigned how = is_capturing(stream) ? cudaEventRecordExternal : cudaEventRecordDefault;
  LT_CUDA(cudaEventRecordWithFlags(event, stream_of(stream.handle), how));
  return {event, [&entry](void* handle) {
            const std::lock_guard lock(entry.mutex);
            entry.timed_events.push_back(event_of(handle));
          }};
}

void synchronize_event(EventHandle event) { synchronize(event_of(event.handle)); }

double elapsed_ms(EventHandle begin, EventHandle end) {
  synchronize_event(begin);
  synchronize_event(end);
  float ms = 0;
  LT_CUDA(cudaEventElapsedTime(&ms, event_of(begin.handle), event_of(end.handle)));
  return static_cast<double>(ms);
}

void record(EventHandle event, CudaStream stream) {
  LT_CUDA(cudaEventRecord(event_of(event.handle), stream_of(stream.handle)));
}
void wait(CudaStream stream, EventHandle event) {
  LT_CUDA(cudaStreamWaitEvent(stream_of(stream.handle), event_of(event.handle)));
}

bool is_event_reached(EventHandle event) {
  return is_reached(cudaEventQuery(event_of(event.handle)), "cudaEventQuery");
}

void synchronize_stream(CudaStream stream) {
  if (captures) return LT_CUDA(cudaStreamSynchronize(stream_of(stream.handle)));
  wait_until([=] { return is_reached(cudaStreamQuery(stream_of(stream.handle)), "cudaStreamQuery"); });
}

bool write_word(std::uint32_t* word, std::uint32_t value, CudaStream stream) {
  static const auto write = driver_function<PFN_cuStreamWriteValue32_v11070>("cuStreamWriteValue32");
  if (write == nullptr) return false;
  void* address = nullptr;
  LT_CUDA(cudaHostGetDevicePointer(&address, word, 0));
  const CUresult code =
      write(stream_of(stream.handle), reinterpret_cast<CUdeviceptr>(address), value, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (code == CUDA_ERROR_NOT_SUPPORTED) return false;
  if (code != CUDA_SUCCESS) throw InternalError("cuda", "cuStreamWriteValue32: error " + std::to_string(code));
  return true;
}

void wait_and_clear(const std::vector<std::uint32_t*>& words, CudaStream stream) {
  static const auto run = driver_function<PFN_cuStreamBatchMemOp_v11070>("cuStreamBatchMemOp");
  std::vector<CUstreamBatchMemOpParams> operations;
  for (std::uint32_t* const word : words) {
    const auto address = reinterpret_cast<CUdeviceptr>(word);
    CUstreamBatchMemOpParams& wait = operations.emplace_back();
    wait.waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, address, {1}, CU_STREAM_WAIT_VALUE_EQ, 0};
    CUstreamBatchMemOpParams& clear = operations.emplace_back();
    clear.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, address, {0}, CU_STREAM_WRITE_VALUE_DEFAULT, 0};
  }
  const CUresult code =
      run == nullptr ? CUDA_ERROR_NOT_SUPPORTED
                     : run(stream_of(stream.handle), static_cast<unsigned>(operations.size()), operations.data(), 0);
  if (code != CUDA_SUCCESS) throw InternalError("cuda", "cuStreamBatchMemOp: error " + std::to_string(code));
}

void sleep(CudaStream stream, std::chrono::milliseconds time) {
  const auto body = [](void* ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(reinterpret_cast<std::intptr_t>(ms)));
  };
  LT_CUDA(cudaLaunchHostFunc(stream_of(stream.handle), body,
                             reinterpret_cast<void*>(static_cast<std::intptr_t>(time.count()))));
}

void* allocate(int device, Size bytes) {
  LT_CUDA(cudaSetDevice(device));
  void* block = nullptr;
  const cudaError_t code = cudaMalloc(&block, static_cast<std::size_t>(bytes));
  if (code == cudaErrorMemoryAllocation) {
    std::size_t free = 0, total = 0;
    static_cast<void>(cudaGetLastError());
    LT_CUDA(cudaMemGetInfo(&free, &total));
    throw InternalError("memory", "cuda:" + std::to_string(device) + " has no " + std::to_string(bytes) +
                                      " bytes left: " + std::to_string(free) + " of " + std::to_string(total) +
                                      " are free");
  }
  check(code, "cudaMalloc");
  return block;
}

void deallocate(int device, void* block) {
  LT_CUDA(cudaSetDevice(device));
  LT_CUDA(cudaFree(block));
}

std::shared_ptr<void> allocate_pinned(int device, Size bytes) {
  if (bytes >= kLeastOwnPages) return allocate_pinned_pages(device, bytes);
  LT_CUDA(cudaSetDevice(device));
  void* block = nullptr;
  LT_CUDA(cudaMallocHost(&block, static_cast<std::size_t>(bytes)));
  return owned_pinned(device, block, [](void* memory) { cudaFreeHost(memory); });
}

std::shared_ptr<void> pin(int device, void* memory, Size bytes) {
  make_present(memory, bytes);
  register_pages(device, memory, bytes);
  return owned_pinned(device, memory, [](void* pinned) { cudaHostUnregister(pinned); });
}

DeviceMemory memory(int device) {
  LT_CUDA(cudaSetDevice(device));
  std::size_t free = 0, total = 0;
  LT_CUDA(cudaMemGetInfo(&free, &total));
  return {static_cast<Size>(total - free), static_cast<Size>(total)};
}

std::shared_ptr<void> capture(CudaStream stream, const std::function<void()>& body, void (*edit)(void* graph)) {
  LT_CUDA(cudaStreamBeginCapture(stream_of(stream.handle), cudaStreamCaptureModeRelaxed));
  cudaGraph_t graph = nullptr;
  captures = true;
  try {
    body();
  } catch (...) {
    captures = false;
    cudaStreamEndCapture(stream_of(stream.handle), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  captures = false;
  LT_CUDA(cudaStreamEndCapture(stream_of(stream.handle), &graph));
  const std::unique_ptr<CUgraph_st, void (*)(cudaGraph_t)> owner(graph, [](cudaGraph_t g) { cudaGraphDestroy(g); });
  LT_CUDA(cudaSetDevice(stream.device));
  if (edit != nullptr) edit(graph);
  cudaGraphExec_t executable = nullptr;
  LT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  return owned(stream.device, executable,
               [](void* handle) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle)); });
}

void launch(void* graph, CudaStream stream) {
  LT_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream.handle)));
}

GraphNodeKind kind_of_node(void* node) {
  static const auto get = driver_function<PFN_cuGraphNodeGetType_v10000>("cuGraphNodeGetType");
  CUgraphNodeType type{};
  const CUresult code = get == nullptr ? CUDA_ERROR_NOT_SUPPORTED : get(static_cast<CUgraphNode>(node), &type);
  if (code != CUDA_SUCCESS) throw InternalError("cuda", "cuGraphNodeGetType: error " + std::to_string(code));
  if (type == CU_GRAPH_NODE_TYPE_MEMSET) return GraphNodeKind::memset;
  const bool allocates = type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
  return allocates ? GraphNodeKind::allocation : GraphNodeKind::other;
}

bool is_capturing(CudaStream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  LT_CUDA(cudaStreamIsCapturing(stream_of(stream.handle), &status));
  return status != cudaStreamCaptureStatusNone;
}

void copy(void* to, const void* from, Size bytes, CudaStream stream) {
  LT_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_of(stream.handle)));
}

}  // namespace lt::device::cuda
