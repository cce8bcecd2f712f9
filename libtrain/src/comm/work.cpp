// Handles of collectives in flight. A handle that is destroyed during stack unwinding does not wait, because its peers
// may have failed elsewhere and may never arrive.
#include "comm/work.h"

#include <vector>

namespace lt {

Work::Work() = default;
Work::Work(std::unique_ptr<State> state) : state_(std::move(state)) {}
Work::Work(Work&&) noexcept = default;

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    const Work previous(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

Work::~Work() {
  if (state_ == nullptr) return;
  if (state_->transfer != nullptr && std::uncaught_exceptions() > state_->exceptions) {
    // Kept for good, because peers may still read the staging memory.
    static auto& abandoned = *new std::vector<std::unique_ptr<State>>;
    state_->transfer->abandon();
    abandoned.push_back(std::move(state_));
    return;
  }
  try {
    wait();
  } catch (...) {
    // A destructor cannot report it; the group's next collective fails too.
  }
}

bool Work::has_peers() const { return state_ != nullptr && state_->backend->size() > 1; }

void Work::wait() {
  if (state_ == nullptr) return;
  const std::unique_ptr<State> state = std::move(state_);
  Timeline* const timeline = state->timeline.get();
  if (state->transfer == nullptr) {
    if (timeline != nullptr) timeline->end(state->span, timeline->now());
    if (state->sequence) state->backend->log().end(*state->sequence);
    return;
  }
  const GroupCounting counting(*state->backend);
  Transfer& transfer = *state->transfer;
  const TimePoint awaited = TimePoint::on(Stream::compute(transfer.device()));
  transfer.wait();
  const TimePoint end = transfer.end();
  if (timeline != nullptr) timeline->end(state->span, end);
  if (!state->sequence) return;
  state->backend->log().end(*state->sequence);
  count_times({state->op, transfer.begin(), end, awaited});
}

}  // namespace lt
