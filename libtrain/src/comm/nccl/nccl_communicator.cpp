// Starts a communicator, launches work and ends it. Ending can hang in the driver or on a dead peer, so it runs on a
// separate thread, which is leaked after a deadline.
#include "comm/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "comm/deadline.h"
#include "device/cuda_error.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

using NcclClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStartDeadline{120};
constexpr std::chrono::seconds kWindowDeadline{30};
constexpr std::chrono::seconds kFinalizeDeadline{10};
constexpr std::chrono::seconds kAbortDeadline{5};
constexpr const char* kHasAnotherEnded = "NCCL_DEBUG=WARN says more; has another rank ended?";

// NCCL's text for `code`, followed by its last error message.
std::string text_of(ncclResult_t code) {
  const char* const last = ncclGetLastError(nullptr);
  const bool has_last = last != nullptr && *last != '\0';
  return fmt::format("{}{}{}", ncclGetErrorString(code), has_last ? ": " : "", has_last ? last : "");
}

// The error of a call that did not wait, or of the query itself.
ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  const ncclResult_t query = ncclCommGetAsyncError(comm, &state);
  return query == ncclSuccess ? state : query;
}

// Whether the call itself is wrong, so that it would fail again. While a communicator is set up, NCCL also refuses what
// the machine lacks as invalid usage, such as a device for each rank.
bool is_wrong_call(bool works, ncclResult_t code) {
  return code == ncclInvalidArgument || code == (works ? ncclInvalidUsage : ncclInternalError);
}

// Waits until the host side of the last call is done; returns false after `deadline`. `works`: the communicator has
// been set up.
bool settles(ncclComm_t comm, NcclClock::time_point deadline, bool works = false) {
  constexpr int kEager = 10000;  // polls, about a millisecond; a launch takes a few microseconds
  for (int polls = 0;; ++polls) {
    const ncclResult_t state = state_of(comm);
    check_nccl(works, state, "ncclCommGetAsyncError", __FILE__, __LINE__);
    if (state != ncclInProgress) return true;
    if (NcclClock::now() > deadline) return false;
    polls < kEager ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

ncclConfig_t communicator_config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 1;
  return config;
}

bool finalizes(ncclComm_t comm) {
  try {
    LT_NCCL(ncclCommFinalize(comm));
    return settles(comm, NcclClock::now() + kFinalizeDeadline);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void check_nccl(bool works, ncclResult_t code, const char* expression, const char* file, int line) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  const char* slash = std::strrchr(file, '/');
  const std::string text =
      fmt::format("{}: {} ({}:{})", expression, text_of(code), slash == nullptr ? file : slash + 1, line);
  if (is_wrong_call(works, code)) throw InternalError("comm", text);
  if (works || code == ncclRemoteError) throw BrokenCommError(text, kHasAnotherEnded);
  throw CommError(text, "NCCL_DEBUG=WARN says more; each rank needs its own CUDA device");
}

template <class Launch>
void NcclCommunicator::start(Launch&& launch) {
  try {
    const auto deadline = NcclClock::now() + kStartDeadline;
    ncclComm_t const watched = launch();
    if (!settles(watched, deadline) || (comm_ != nullptr && !settles(comm_, deadline))) {
      throw CommError(fmt::format("group {}: NCCL did not start within {} s", name_, kStartDeadline.count()),
                      "NCCL_DEBUG=INFO says which ranks and interfaces it uses");
    }
    check_.emplace([this] { check(); });
  } catch (...) {
    abort();
    throw;
  }
}

NcclCommunicator::NcclCommunicator(GroupBackend& control, int device) : name_(control.place().name) {
  LT_CUDA(cudaSetDevice(device));
  ncclUniqueId id{};
  // The other ranks wait for the id. If rank 0 has none, they receive an empty one.
  std::string bytes;
  if (control.rank() == 0 && ncclGetUniqueId(&id) == ncclSuccess) bytes.assign(id.internal, sizeof id.internal);
  bytes = control.broadcast_bytes(bytes, 0);
  if (bytes.size() != sizeof id.internal) {
    throw CommError(fmt::format("group {}: NCCL did not start on rank 0", control.place().name),
                    "NCCL_DEBUG=INFO says which interfaces it uses; NCCL_SOCKET_IFNAME names one");
  }
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  ncclConfig_t config = communicator_config();
  start([&] {
    LT_NCCL_SET_UP(ncclCommInitRankConfig(&comm_, control.size(), id, control.rank(), &config));
    return comm_;
  });
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclCommunicator> parent, int color, int rank,
                                   const std::string& name)
    : name_(name), parent_(std::move(parent)), family_aborted_(parent_->family_aborted_) {
  parent_->require_usable();
  ncclConfig_t config = communicator_config();
  start([&] {
    LT_NCCL_SET_UP(ncclCommSplit(parent_->comm_, color, rank, &comm_, &config));
    return parent_->comm_;
  });
}

NcclCommunicator::~NcclCommunicator() {
  if (std::uncaught_exceptions() > 0 || *family_aborted_) abort();
  if (comm_ == nullptr) return;
  run_within(kFinalizeDeadline + kAbortDeadline,
             [comm = comm_] { finalizes(comm) ? ncclCommDestroy(comm) : ncclCommAbort(comm); });
}

void NcclCommunicator::exchange(const std::vector<Piece>& outgoing, const std::vector<Piece>& incoming,
                                CudaStream stream) {
  auto* const handle = static_cast<cudaStream_t>(stream.handle);
  launch([&](ncclComm_t comm) {
    for (const auto& [rank, begin, bytes] : outgoing) {
      LT_NCCL(ncclSend(begin, static_cast<std::size_t>(bytes), ncclUint8, rank, comm, handle));
    }
    for (const auto& [rank, begin, bytes] : incoming) {
      LT_NCCL(ncclRecv(begin, static_cast<std::size_t>(bytes), ncclUint8, rank, comm, handle));
    }
  });
}

ncclWindow_t NcclCommunicator::register_window(void* memory, Size bytes) {
  auto window = std::make_unique<ncclWindow_t>();  // written when the host side is done
  const auto deadline = NcclClock::now() + kWindowDeadline;
  LT_NCCL_SET_UP(
      ncclCommWindowRegister(comm_, memory, static_cast<std::size_t>(bytes), window.get(), NCCL_WIN_COLL_SYMMETRIC));
  if (settles(comm_, deadline)) return *window;
  static_cast<void>(window.release());  // NCCL may still write it
  throw CommError(
      fmt::format("group {}: {} bytes did not become a window within {} s", name_, bytes, kWindowDeadline.count()),
      "NCCL_WIN_ENABLE=0 disables windows");
}

bool NcclCommunicator::deregister_window(ncclWindow_t window) noexcept try {
  if (comm_ == nullptr || *family_aborted_) return false;
  LT_NCCL(ncclCommWindowDeregister(comm_, window));
  return settles(comm_, NcclClock::now() + kWindowDeadline);
} catch (const Error&) {
  return false;
}

void NcclCommunicator::check() {
  if (comm_ == nullptr || *family_aborted_) return;
  const ncclResult_t state = state_of(comm_);
  if (state == ncclSuccess || state == ncclInProgress) return;
  const std::string text = text_of(state);
  abort();
  const std::string message = fmt::format("group {}: NCCL failed while the device was waited for: {}", name_, text);
  if (is_wrong_call(true, state)) throw InternalError("comm", message);
  throw BrokenCommError(message, kHasAnotherEnded);
}

void NcclCommunicator::leave() noexcept {
  check_.reset();
  comm_ = nullptr;
}

void NcclCommunicator::abort() noexcept {
  *family_aborted_ = true;
  if (comm_ == nullptr) return;
  run_within(kAbortDeadline, [comm = std::exchange(comm_, nullptr)] { ncclCommAbort(comm); });
}

void NcclCommunicator::require_usable() const {
  if (!*family_aborted_) return;
  throw BrokenCommError("expected a group whose collectives were all waited for; one was abandoned after an error");
}

NcclCommunicator::Operation::Operation(NcclCommunicator& communicator) : communicator_(communicator) {
  communicator.require_usable();
  LT_NCCL(ncclGroupStart());
}

NcclCommunicator::Operation::~Operation() {
  if (open_) ncclGroupEnd();
}

void NcclCommunicator::Operation::end() {
  open_ = false;
  LT_NCCL(ncclGroupEnd());
  // No deadline: a peer may have much work to do before it reaches the first collective. The watchdog ends a run that
  // hangs.
  settles(communicator_.comm_, NcclClock::time_point::max(), true);
}

}  // namespace lt::comm
