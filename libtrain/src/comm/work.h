// What a Work holds: the transfer, the staging memory that it uses, and what to count when it is complete.
#pragma once

#include <chrono>
#include <exception>
#include <memory>

#include "comm/backend.h"
#include "libtrain/group.h"

namespace lt {

struct Work::State {
  using Clock = std::chrono::steady_clock;

  State(std::shared_ptr<GroupBackend> backend, CollectiveOp op, Size bytes)
      : backend(std::move(backend)), op(op), bytes(bytes) {}

  std::shared_ptr<GroupBackend> backend;  // a communicator outlives its transfers
  CollectiveOp op;
  Size bytes;
  bool counted = true;  // false: a part of a larger collective, which counts the whole
  Tensor outgoing, incoming;
  std::unique_ptr<Transfer> transfer;  // null: nothing moves
  Clock::time_point start = Clock::now();
  int exceptions = std::uncaught_exceptions();

  static double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
};

}  // namespace lt
