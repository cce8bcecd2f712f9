// What a Work holds: the transfer, the staging memory that it uses, and its span.
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "comm/backend.h"
#include "libtrain/comm/group.h"
#include "libtrain/profile/timeline.h"

namespace lt {

struct Work::State {
  State(std::shared_ptr<GroupBackend> backend, CollectiveOp op, std::optional<std::uint64_t> sequence = {})
      : backend(std::move(backend)), op(op), sequence(sequence) {}

  std::shared_ptr<GroupBackend> backend;  // a communicator outlives its transfers
  CollectiveOp op;
  std::optional<std::uint64_t> sequence;  // in the log; none: a part of a larger collective, which is logged and timed
  Tensor outgoing, incoming;
  std::unique_ptr<Transfer> transfer;  // null: nothing moves
  int exceptions = std::uncaught_exceptions();

  // Its row in a trace.
  std::shared_ptr<Timeline> timeline;
  std::size_t span = 0;

  // When it has started.
  void open_span(std::string_view name, Size bytes) {
    timeline = Context::current().timeline;
    if (timeline == nullptr) return;
    const Lane lane = op == CollectiveOp::all_gather ? Lane::gather : Lane::reduce;
    span = timeline->begin({lane, std::string(name), {bytes, backend->size(), backend->place().stride}},
                           transfer ? transfer->begin() : timeline->now());
  }
};

}  // namespace lt
