// Window memory. Everything that must be the same on all ranks is agreed on here, over the control back end.
#include "comm/nccl_windows.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda.h"
#include "device/cuda_error.h"
#include "device/fault.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"
#include "memory/buffer.h"
#include "memory/ledger.h"

namespace lt {
namespace {

constexpr Size kTrialBytes = Size{2} << 20;  // NCCL takes whole pages of the device

struct FreeWindow {
  void operator()(void* memory) const noexcept { ncclMemFree(memory); }
};
using OwnMemory = std::unique_ptr<void, FreeWindow>;

struct Window {
  void* memory = nullptr;
  ncclWindow_t handle = nullptr;
};

class WindowMemory final : public BlockSource {
 public:
  WindowMemory(std::shared_ptr<GroupBackend> control, std::shared_ptr<NcclCommunicator> communicator, Device device)
      : control_(std::move(control)), communicator_(std::move(communicator)), device_(device) {}

  // Throws if a window cannot be made. Returns false if it can be made but NCCL does not gather in it.
  bool try_out() {
    const Window window = make(kTrialBytes);
    const bool symmetric = is_symmetric(window);
    give_back(window);
    // The answer must be the same on all ranks.
    const auto answers = control_.all_gather_bytes(symmetric ? "yes" : "no");
    return std::count(answers.begin(), answers.end(), "yes") == control_.size();
  }

  Block allocate(Size bytes, MemoryOwner owner) override {
    const Window window = make(bytes);
    const bool counted = Context::current().counts_memory;
    if (counted) ledger_add(device_, owner, bytes);
    entries_.push_back({window, bytes, owner, counted});
    return {static_cast<std::byte*>(window.memory), entries_.size() - 1};
  }

  void release(std::size_t index) noexcept override {
    const Entry& entry = entries_[index];
    if (entry.counted) ledger_add(device_, entry.owner, -entry.bytes);
    give_back(entry.window);
  }

 private:
  struct Entry {
    Window window;
    Size bytes;
    MemoryOwner owner;
    bool counted;
  };

  Window make(Size bytes) const {
    require_same(bytes);
    OwnMemory memory;
    collectively(control_, [&] { memory = take(bytes); });
    // If registering throws, NCCL may still access the memory, so it is not freed.
    Window window{memory.release()};
    collectively(control_, [&] { window.handle = communicator_->register_window(window.memory, bytes); });
    return window;
  }

  // Also ensures that all ranks have made their earlier releases: each rank maps the memory of all.
  void require_same(Size bytes) const {
    const auto sizes = control_.all_gather_bytes(std::to_string(bytes));
    for (std::size_t r = 1; r < sizes.size(); ++r) {
      if (sizes[r] == sizes[0]) continue;
      throw InternalError("comm", fmt::format("window memory: rank {}: expected the {} bytes of rank 0, got {}", r,
                                              sizes[0], sizes[r]));
    }
  }

  OwnMemory take(Size bytes) const {
    LT_CUDA(cudaSetDevice(device_.index));
    void* memory = nullptr;
    if (!fault_fails_allocation() && ncclMemAlloc(&memory, static_cast<std::size_t>(bytes)) == ncclSuccess) {
      return OwnMemory(memory);
    }
    static_cast<void>(cudaGetLastError());
    const cuda::DeviceMemory all = cuda::memory(device_.index);
    throw InternalError("memory", fmt::format("{} has no {} bytes left for a window: {} of {} are free",
                                              to_string(device_), bytes, all.total - all.used, all.total));
  }

  // The handle of a symmetric window lies in device memory; the handle of a plain registration does not.
  static bool is_symmetric(const Window& window) {
    if (window.handle == nullptr) return false;
    cudaPointerAttributes attributes{};
    const bool known = cudaPointerGetAttributes(&attributes, window.handle) == cudaSuccess;
    if (!known) static_cast<void>(cudaGetLastError());
    return known && attributes.type == cudaMemoryTypeDevice;
  }

  // During stack unwinding the device may wait for a peer for ever, so the memory stays until the process ends.
  void give_back(const Window& window) const noexcept try {
    if (std::uncaught_exceptions() > 0) return;
    LT_CUDA(cudaSetDevice(device_.index));
    LT_CUDA(cudaDeviceSynchronize());  // unlike cudaFree(), the calls below do not wait for the device
    if (window.handle != nullptr && !communicator_->deregister_window(window.handle)) return;
    ncclMemFree(window.memory);
  } catch (const Error&) {
  }

  const Group control_;
  const std::shared_ptr<NcclCommunicator> communicator_;
  const Device device_;
  std::vector<Entry> entries_;
};

bool is_off(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string(value) == "0";
}

// The reason not to try windows, equal on all ranks, or empty. NCCL gathers in windows only between ranks of one host.
std::string obstacle(GroupBackend& control) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string off;
  for (const char* variable : {"NCCL_WIN_ENABLE", "NCCL_CUMEM_ENABLE"}) {
    if (off.empty() && is_off(variable)) off = std::string(variable) + "=0";
  }
  const std::vector<std::string> variables = control.all_gather_bytes(off), hosts = control.all_gather_bytes(host);
  for (const std::string& variable : variables) {
    if (!variable.empty()) return variable;
  }
  for (const std::string& other : hosts) {
    if (other != hosts[0]) return "ranks on several hosts";
  }
  return {};
}

}  // namespace

GatherMemory make_gather_memory(std::shared_ptr<GroupBackend> control, std::shared_ptr<NcclCommunicator>& communicator,
                                Device device) {
  if (const std::string reason = obstacle(*control); !reason.empty()) return {nullptr, reason};
  auto own =
      std::make_shared<NcclCommunicator>(communicator, 0, control->rank(), control->place().name + " in windows");
  auto memory = std::make_shared<WindowMemory>(std::move(control), own, device);
  try {
    if (!memory->try_out()) return {nullptr, "NCCL supports none between these devices"};
  } catch (const Error& error) {
    own->leave();
    return {nullptr, error.what()};
  }
  communicator = std::move(own);
  return {std::move(memory), {}};
}

}  // namespace lt
