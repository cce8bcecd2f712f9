// What a Work holds: the transfer, the staging memory that it uses, and when it started.
#pragma once

#include <chrono>
#include <exception>
#include <memory>

#include "comm/backend.h"
#include "libtrain/group.h"
#include "libtrain/timeline.h"

namespace lt {

struct Work::State {
  using Clock = std::chrono::steady_clock;

  State(std::shared_ptr<GroupBackend> backend, CollectiveOp op) : backend(std::move(backend)), op(op) {}

  std::shared_ptr<GroupBackend> backend;  // a communicator outlives its transfers
  CollectiveOp op;
  bool timed = true;  // false: a part of a larger collective, whose time is taken as a whole
  Tensor outgoing, incoming;
  std::unique_ptr<Transfer> transfer;  // null: nothing moves
  Clock::time_point start = Clock::now();
  int exceptions = std::uncaught_exceptions();

  // Its row in a trace.
  std::shared_ptr<Timeline> timeline;
  std::size_t span = 0;

  void open_span(std::string_view name, Size bytes) {
    timeline = Timeline::current();
    if (timeline == nullptr) return;
    const Lane lane = op == CollectiveOp::all_gather ? Lane::gather : Lane::reduce;
    span = timeline->begin({lane, std::string(name), {bytes, backend->size(), backend->place().stride}});
  }
  void close_span() {
    if (timeline != nullptr) timeline->end(span);
  }

  static double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
};

}  // namespace lt
