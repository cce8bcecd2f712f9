// Handles of collectives in flight. A handle that is destroyed during stack unwinding does not wait, because its peers
// may have failed too and may never join the collective.
#include "comm/work.h"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lt {
namespace {

// Collectives that were given up. Peers may still read their memory and write to it, so it stays until that has ended.
class GivenUp {
 public:
  void add(std::unique_ptr<Work::State> state) {
    state->transfer->abandon();
    const std::lock_guard lock(mutex_);
    states_.push_back(std::move(state));
  }
  void release_ended() {
    const std::lock_guard lock(mutex_);
    std::erase_if(states_, [&](const std::unique_ptr<Work::State>& state) {
      if (!state->transfer->has_ended()) return false;
      backends_.push_back(std::move(state->backend));  // for good: ranks free a communicator together
      return true;
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Work::State>> states_;
  std::vector<std::shared_ptr<comm::GroupBackend>> backends_;
};

GivenUp& given_up() {
  static auto& instance = *new GivenUp;
  return instance;
}

}  // namespace

Work::Work() = default;
Work::Work(std::unique_ptr<State> state) : state_(std::move(state)) { given_up().release_ended(); }
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
    given_up().add(std::move(state_));
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
  std::unique_ptr<State> state = std::move(state_);
  Timeline* const timeline = state->timeline.get();
  if (state->transfer == nullptr) {
    if (timeline != nullptr) timeline->end(state->span, timeline->now());
    if (state->sequence) state->backend->log().end(*state->sequence);
    return;
  }
  const comm::GroupCounting counting(*state->backend);
  comm::Transfer& transfer = *state->transfer;
  const TimePoint awaited = TimePoint::on(Stream::compute(transfer.device()));
  try {
    transfer.wait();
  } catch (...) {
    given_up().add(std::move(state));
    throw;
  }
  const TimePoint end = transfer.end();
  if (timeline != nullptr) timeline->end(state->span, end);
  if (!state->sequence) return;
  state->backend->log().end(*state->sequence);
  comm::count_times({state->op, transfer.begin(), end, awaited});
}

}  // namespace lt
