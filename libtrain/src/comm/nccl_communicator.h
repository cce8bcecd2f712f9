// An NCCL communicator from its start to its end. It is non-blocking: the host waits for it here alone, so that it can
// see errors and has a deadline where peers may be gone. Errors that come while a device works are seen where the host
// waits for that. Calls come from one thread.
#pragma once

#include <nccl.h>

#include <memory>
#include <optional>
#include <string>

#include "comm/backend.h"
#include "comm/nccl_error.h"
#include "device/wait_checks.h"

namespace lt {

class NcclCommunicator {
 public:
  // For all ranks of `control`, each on a device of its own; every one of them must make it at the same time.
  NcclCommunicator(GroupBackend& control, int device);
  // For those ranks of `parent` that give the same color, in their order; kNoColor is that of ranks that want none. All
  // ranks of `parent` must make it at the same time. It takes over what the parent knows of the machine and shares its
  // buffers, so it is there in a tenth of the time; where one of the family is aborted none may be used any more.
  static constexpr int kNoColor = NCCL_SPLIT_NOCOLOR;
  NcclCommunicator(std::shared_ptr<NcclCommunicator> parent, int color, int rank, const std::string& name);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  // Waits for what was launched; while an exception passes, aborts it. Within a deadline, after which it is left
  // behind.
  ~NcclCommunicator();

  // What call(ncclComm_t) starts is one operation; when launch() returns, the streams named in it hold its work.
  template <class Call>
  void launch(Call&& call) {
    Operation operation(*this);
    call(comm_);
    operation.end();
  }

  // Makes memory of ncclMemAlloc() a symmetric window, for the collectives of this communicator; all ranks must do so
  // at the same time, with the same size. The handle is not null, but not of a symmetric window where NCCL has none
  // here. Throws CommError where that fails or takes too long; then NCCL may still be at the memory, and the
  // communicator is good for nothing but leave().
  ncclWindow_t register_window(void* memory, Size bytes);
  // When no collective reads or writes it any more. False: NCCL may still be at the memory, as after abort().
  bool deregister_window(ncclWindow_t window) noexcept;

  // Ends what is on its way, here and now; later launches throw CommError. Within a deadline.
  void abort() noexcept;
  // Leaves it as it is, for ever: it may wait for a peer that does not come. Others of its family go on.
  void leave() noexcept;

 private:
  // Ends NCCL's group of calls also where one of them throws.
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

  // Makes comm_: launch() returns the communicator that is to be watched until it is there. Aborts where that fails.
  template <class Launch>
  void start(Launch&& launch);
  // Throws CommError where NCCL has met an error, and aborts.
  void check();

  std::string name_;                          // of the group
  std::shared_ptr<NcclCommunicator> parent_;  // outlives its children
  std::shared_ptr<bool> family_aborted_ = std::make_shared<bool>(false);
  ncclComm_t comm_ = nullptr;  // null: aborted, or left
  std::optional<WaitCheck> check_;
};

}  // namespace lt
