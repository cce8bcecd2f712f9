// Window memory. The ranks agree over the control back end on everything that must be equal on all of them.
#include "comm/nccl/nccl_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/nccl/window_places.h"
#include "comm/value_exchange.h"
#include "device/cuda.h"
#include "device/cuda_error.h"
#include "device/fault.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"
#include "memory/allocator.h"
#include "memory/ledger.h"

namespace lt::comm {
namespace {

constexpr Size kControlBytes = Size{2} << 20;     // NCCL takes whole pages of the device
constexpr std::chrono::seconds kReleaseTime{15};  // beyond all deadlines of aborted communicators

struct FreeWindow {
  void operator()(void* memory) const noexcept { ncclMemFree(memory); }
};
using OwnMemory = std::unique_ptr<void, FreeWindow>;

bool is_off(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string(value) == "0";
}

// The reason not to try windows, equal on all ranks, or empty.
std::string obstacle(GroupBackend& control, const HostGrid& grid) {
  std::string off;
  for (const char* variable : {"NCCL_WIN_ENABLE", "NCCL_CUMEM_ENABLE"}) {
    if (off.empty() && is_off(variable)) off = std::string(variable) + "=0";
  }
  for (const std::string& variable : control.all_gather_bytes(off)) {
    if (!variable.empty()) return variable;
  }
  if (grid.ranks > 1) return "";
  return "expected the same number of ranks on every host, more than one, numbered one after the other";
}

}  // namespace

WindowMemory::WindowMemory(std::shared_ptr<GroupBackend> control, int ranks,
                           std::shared_ptr<NcclCommunicator> communicator, Device device)
    : control_(std::move(control)), ranks_(ranks), communicator_(std::move(communicator)), device_(device) {}

WindowMemory::~WindowMemory() {
  if (control_window_.memory != nullptr) give_back(control_window_);
}

bool WindowMemory::open() {
  control_window_ = make(kControlBytes);
  // The answer must be the same on all ranks. When all have answered, all words are zero.
  const std::vector<bool> answers = gather_values(control_, prepare_words());
  return std::find(answers.begin(), answers.end(), false) == answers.end();
}

// Clears the words. Returns false if peers do not map them, or if streams cannot wait for them.
bool WindowMemory::prepare_words() try {
  if (control_window_.peers.empty()) return false;
  live_.emplace(control_window_.memory, control_window_);
  words_ = reinterpret_cast<std::uint32_t*>(control_window_.memory);
  const Stream compute = Stream::compute(device_);
  const std::uint32_t one = 1;
  LT_CUDA(cudaMemset(words_, 0, kControlBytes));
  for (std::uint32_t* const word : {words_, words_ + 1}) {
    LT_CUDA(cudaMemcpy(word, &one, sizeof one, cudaMemcpyDefault));
  }
  device::cuda::wait_and_clear({words_ + 1}, compute.cuda());
  compute.synchronize();
  return true;
} catch (const Error&) {
  static_cast<void>(cudaGetLastError());
  return false;
}

memory::BlockSource::Block WindowMemory::allocate(Size bytes, MemoryOwner owner) {
  Window window = make(bytes);
  const bool counted = Context::current().counts_memory;
  if (counted) memory::ledger_add(device_, owner, bytes);
  std::byte* const memory = window.memory;
  if (!window.peers.empty()) live_.emplace(memory, window);
  entries_.push_back({std::move(window), owner, counted});
  return {memory, entries_.size() - 1};
}

void WindowMemory::release(std::size_t index) noexcept {
  const Entry& entry = entries_[index];
  if (entry.counted) memory::ledger_add(device_, entry.owner, -entry.window.bytes);
  live_.erase(entry.window.memory);
  give_back(entry.window);
}

std::byte* WindowMemory::on_rank(int rank, const void* address, Size bytes) const {
  const auto* const begin = static_cast<const std::byte*>(address);
  auto after = live_.upper_bound(begin);
  if (after == live_.begin()) return nullptr;
  const Window& window = std::prev(after)->second;
  if (begin + bytes > window.memory + window.bytes) return nullptr;
  return window.peers[static_cast<std::size_t>(rank)] + (begin - window.memory);
}

std::uint32_t* WindowMemory::take_words(Size count) {
  if ((words_taken_ + count) * static_cast<Size>(sizeof(std::uint32_t)) > kControlBytes) {
    throw InternalError("comm",
                        fmt::format("window memory: {} words are taken, {} more do not fit", words_taken_, count));
  }
  return words_ + std::exchange(words_taken_, words_taken_ + count);
}

void WindowMemory::release_waits() noexcept try {
  if (std::exchange(releases_, true)) return;
  // Joined when the process ends, before it takes down the CUDA runtime, which is older.
  static std::mutex mutex;
  static std::vector<std::jthread> threads;
  const std::lock_guard lock(mutex);
  // Leaked on purpose: the last owner would destroy the communicator, which neither the thread nor the end of the
  // process may do.
  new std::shared_ptr<WindowMemory>(shared_from_this());
  threads.emplace_back([this](const std::stop_token& ends) noexcept {
    try {
      const std::vector<std::uint32_t> ones(static_cast<std::size_t>(words_taken_), 1);
      const Stream own(device_);
      const auto deadline = std::chrono::steady_clock::now() + kReleaseTime;
      do {
        device::cuda::copy(words_, ones.data(), words_taken_ * static_cast<Size>(sizeof(std::uint32_t)), own.cuda());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } while (!ends.stop_requested() && std::chrono::steady_clock::now() < deadline);
    } catch (const Error&) {
    }
  });
} catch (...) {
  // No thread can be started: the watchdog ends the process.
}

WindowMemory::Window WindowMemory::make(Size bytes) const {
  require_same(bytes);
  OwnMemory memory;
  collectively(control_, [&] { memory.reset(take(bytes)); });
  // If registering throws, NCCL may still access the memory, so it is not freed.
  Window window;
  window.memory = static_cast<std::byte*>(memory.release()), window.bytes = bytes;
  collectively(control_, [&] {
    window.handle = communicator_->register_window(window.memory, bytes);
    window.peers = find_peers(window.handle);
    // All hosts go the same way: each rank copies on its host, or none does.
    if (words_ != nullptr && window.peers.empty()) {
      throw InternalError("comm", fmt::format("window memory: {} bytes are not mapped on other ranks", bytes));
    }
  });
  return window;
}

// Also ensures that all ranks have made their earlier releases: each rank maps the memory of all on its host.
void WindowMemory::require_same(Size bytes) const {
  const auto sizes = control_.all_gather_bytes(std::to_string(bytes));
  for (std::size_t r = 1; r < sizes.size(); ++r) {
    if (sizes[r] == sizes[0]) continue;
    throw InternalError(
        "comm", fmt::format("window memory: rank {}: expected the {} bytes of rank 0, got {}", r, sizes[0], sizes[r]));
  }
}

// If the device has not enough memory left, freed blocks that its allocator keeps are returned to it first.
void* WindowMemory::take(Size bytes) const {
  LT_CUDA(cudaSetDevice(device_.index));
  const auto ask = [bytes]() -> void* {
    void* memory = nullptr;
    if (ncclMemAlloc(&memory, static_cast<std::size_t>(bytes)) == ncclSuccess) return memory;
    static_cast<void>(cudaGetLastError());
    return nullptr;
  };
  if (!device::fault_fails_allocation()) {
    if (void* const memory = ask()) return memory;
    memory::trim(device_);
    if (void* const memory = ask()) return memory;
  }
  const device::cuda::DeviceMemory all = device::cuda::memory(device_.index);
  throw InternalError("memory", fmt::format("{} has no {} bytes left for a window: {} of {} are free",
                                            to_string(device_), bytes, all.total - all.used, all.total));
}

// The handle of a symmetric window lies in device memory; the handle of a plain registration, which nobody maps, does
// not.
std::vector<std::byte*> WindowMemory::find_peers(ncclWindow_t window) const {
  cudaPointerAttributes attributes{};
  if (window == nullptr || cudaPointerGetAttributes(&attributes, window) != cudaSuccess ||
      attributes.type != cudaMemoryTypeDevice) {
    static_cast<void>(cudaGetLastError());
    return {};
  }
  return places_of_window(window, ranks_);
}

// During stack unwinding the device may wait for a peer for ever, so the memory stays until the process ends.
void WindowMemory::give_back(const Window& window) const noexcept try {
  if (std::uncaught_exceptions() > 0) return;
  LT_CUDA(cudaSetDevice(device_.index));
  LT_CUDA(cudaDeviceSynchronize());  // unlike cudaFree(), the calls below do not wait for the device
  if (window.handle != nullptr && !communicator_->deregister_window(window.handle)) return;
  ncclMemFree(window.memory);
} catch (const Error&) {
}

Windows make_windows(std::shared_ptr<GroupBackend> control, const std::shared_ptr<NcclCommunicator>& parent,
                     const HostGrid& grid, Device device) {
  if (const std::string reason = obstacle(*control, grid); !reason.empty()) return {nullptr, reason};
  const int rank = control->rank(), host = rank / grid.ranks;
  auto own = std::make_shared<NcclCommunicator>(parent, host, rank, control->place().name + " in windows");
  auto memory = std::make_shared<WindowMemory>(std::move(control), grid.ranks, own, device);
  try {
    if (!memory->open()) return {nullptr, "NCCL maps no memory between these devices"};
  } catch (const Error& error) {
    own->leave();
    return {nullptr, error.what()};
  }
  return {std::move(memory), {}};
}

}  // namespace lt::comm
