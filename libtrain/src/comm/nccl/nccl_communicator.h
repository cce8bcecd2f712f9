// An NCCL communicator from start to end. It is non-blocking. The host waits for it only in this class, which checks
// for errors and has a deadline in case a peer is dead. An error of work on the device shows when the host waits for
// the device. All calls must come from one thread.
#pragma once

#include <nccl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/backend.h"
#include "comm/nccl/nccl_error.h"
#include "device/wait_checks.h"

namespace lt::comm {

class NcclCommunicator {
 public:
  // For all ranks of `control`, each on a different device. Every rank must construct it at the same time.
  NcclCommunicator(GroupBackend& control, int device);
  // For the ranks of `parent` that pass the same color, in the parent's order. A rank passes kNoColor to stay without a
  // communicator. All ranks of `parent` must construct it at the same time. It reuses the parent's topology and shares
  // its buffers, so it starts in a tenth of the time. If one communicator of such a family is aborted, all become
  // unusable. Throws BrokenCommError then, and CommError if it cannot be set up.
  static constexpr int kNoColor = NCCL_SPLIT_NOCOLOR;
  NcclCommunicator(std::shared_ptr<NcclCommunicator> parent, int color, int rank, const std::string& name);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  // Waits for launched work, or aborts it during stack unwinding. After a deadline it leaks the communicator.
  ~NcclCommunicator();

  // Runs everything that call(ncclComm_t) starts as one operation. On return the streams named in it hold its work.
  template <class Call>
  void launch(Call&& call) {
    Operation operation(*this);
    call(comm_);
    operation.end();
  }

  // Sends and receives the pieces, as in AllToAllCall.
  void exchange(const std::vector<Piece>& outgoing, const std::vector<Piece>& incoming, CudaStream stream);

  // Makes memory from ncclMemAlloc() a symmetric window for the collectives of this communicator. All ranks must call
  // it at the same time, with the same size. The handle is never null; if NCCL has no symmetric windows here, it is the
  // handle of a plain registration. Throws CommError if that fails or takes too long. NCCL may then still access the
  // memory, and only leave() may be called on the communicator.
  ncclWindow_t register_window(void* memory, Size bytes);
  // Call it after the last collective that uses the window. Returns false if NCCL may still access the window, for
  // example after abort().
  bool deregister_window(ncclWindow_t window) noexcept;

  // Throws BrokenCommError if a communicator of the family was aborted.
  void require_usable() const;
  // Ends the work in flight at once, within a deadline. Later launches throw BrokenCommError.
  void abort() noexcept;
  // Leaks the communicator, because it may wait for a dead peer for ever. Other communicators of its family continue.
  void leave() noexcept;

 private:
  // Ends NCCL's group of calls even if one of them throws.
  class Operation {
   public:
    explicit Operation(NcclCommunicator& communicator);
    ~Operation();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    void end();

   private:
    NcclCommunicator& communicator_;
    bool open_ = true;
  };

  // Makes comm_. launch() returns the communicator to watch until comm_ is ready. Aborts on failure.
  template <class Launch>
  void start(Launch&& launch);
  // If NCCL has met an error, aborts and throws BrokenCommError.
  void check();

  std::string name_;                          // of the group
  std::shared_ptr<NcclCommunicator> parent_;  // outlives its children
  std::shared_ptr<bool> family_aborted_ = std::make_shared<bool>(false);
  ncclComm_t comm_ = nullptr;  // null: aborted, or left
  std::optional<device::WaitCheck> check_;
};

}  // namespace lt::comm
