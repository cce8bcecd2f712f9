// An NCCL communicator from its start to its end. It is non-blocking: the host waits for it here alone, so that it can
// see errors and has a deadline where peers may be gone. Calls come from one thread.
#pragma once

#include <nccl.h>

#include "comm/backend.h"
#include "comm/nccl_error.h"

namespace lt {

class NcclCommunicator {
 public:
  // For all ranks of `control`, each on a device of its own; every one of them must make it at the same time.
  NcclCommunicator(GroupBackend& control, int device);
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

  // Ends what is on its way, here and now; later launches throw CommError. Within a deadline.
  void abort() noexcept;

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

  ncclComm_t comm_ = nullptr;  // null: aborted
};

}  // namespace lt
