// Stubs for a build without CUDA. It has no devices, so functions that need one are never called.
#include "device/cuda.h"
#include "libtrain/error.h"

namespace lt::device::cuda {
namespace {

[[noreturn]] void not_built() { throw InternalError("device", "CUDA is not in this build"); }

}  // namespace

bool is_built() { return false; }
std::string why_not(int) { return "is not in this build: it has cpu and meta"; }

int count() { return 0; }
std::string bus_id(int) { not_built(); }
std::string name(int) { not_built(); }
int compute_capability(int) { not_built(); }
Size total_memory(int) { not_built(); }
bool can_access(int, int) { not_built(); }
double multiply_add_flops(int) { not_built(); }
std::string driver_version() { return {}; }

std::shared_ptr<void> create_stream(int, bool) { not_built(); }
const std::shared_ptr<void>& compute_stream(int) { not_built(); }
std::shared_ptr<void> create_event(int) { not_built(); }
void record(EventHandle, CudaStream) { not_built(); }
void wait(CudaStream, EventHandle) { not_built(); }
void synchronize_event(EventHandle) { not_built(); }
void synchronize_stream(CudaStream) { not_built(); }
std::shared_ptr<void> record_timed(CudaStream) { not_built(); }
bool is_event_reached(EventHandle) { not_built(); }
double elapsed_ms(EventHandle, EventHandle) { not_built(); }
bool write_word(std::uint32_t*, std::uint32_t, CudaStream) { not_built(); }
void wait_and_clear(const std::vector<std::uint32_t*>&, CudaStream) { not_built(); }
void sleep(CudaStream, std::chrono::milliseconds) { not_built(); }
void* allocate(int, Size) { not_built(); }
void deallocate(int, void*) { not_built(); }
std::shared_ptr<void> allocate_pinned(int, Size) { not_built(); }
std::shared_ptr<void> pin(int, void*, Size) { not_built(); }
DeviceMemory memory(int) { not_built(); }
std::shared_ptr<void> capture(CudaStream, const std::function<void()>&, void (*)(void*)) { not_built(); }
void launch(void*, CudaStream) { not_built(); }
GraphNodeKind kind_of_node(void*) { not_built(); }
bool is_capturing(CudaStream) { not_built(); }
void copy(void*, const void*, Size, CudaStream) { not_built(); }

}  // namespace lt::device::cuda
