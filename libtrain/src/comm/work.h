// The state of a Work: the transfer, its staging memory, and its span.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "comm/backend.h"
#include "libtrain/comm/group.h"
#include "libtrain/profile/timeline.h"

namespace lt {

struct Work::State {
  State(std::shared_ptr<comm::GroupBackend> backend, CollectiveOp op, std::optional<std::uint64_t> sequence = {})
      : backend(std::move(backend)), op(op), sequence(sequence) {}

  std::shared_ptr<comm::GroupBackend> backend;  // so that the communicator outlives its transfers
  CollectiveOp op;
  std::optional<std::uint64_t> sequence;  // in the log; nullopt for one half of a collective that is logged as a whole
  std::vector<Tensor> tensors;            // the caller's CPU tensors
  Tensor outgoing, incoming, host_sums, partials;
  std::unique_ptr<comm::Transfer> transfer;  // null: nothing moves
  int exceptions = std::uncaught_exceptions();

  // Its span in a trace.
  std::shared_ptr<Timeline> timeline;
  std::size_t span = 0;

  // Keeps the tensor alive as long as this state, because a peer's message may still arrive in it after the last wait.
  void hold(const Tensor& tensor) {
    if (tensor.device() == kCpu) tensors.push_back(tensor);
  }
  // Call it once the transfer has started.
  void open_span(std::string_view name, Size bytes) {
    timeline = Context::current().timeline;
    if (timeline == nullptr) return;
    const Lane lane = op == CollectiveOp::all_gather ? Lane::gather : Lane::reduce;
    span = timeline->begin({lane, std::string(name), {bytes, backend->size(), backend->place().stride}},
                           transfer ? transfer->begin() : timeline->now());
  }
};

}  // namespace lt
