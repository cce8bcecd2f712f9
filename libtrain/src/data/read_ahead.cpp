// Hands rows to reading threads and takes them back in order.
#include "data/read_ahead.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace lt::data {
namespace {

// With 20 ms a read, so many threads read 1,600 samples a second.
constexpr std::size_t kMostThreads = 32;
// Two steps are ahead, and of short steps so many that all threads have work.
constexpr Size kStepsAhead = 2;
constexpr std::chrono::milliseconds kPatience{1};

Size rows_ahead(Size rows_of_step) {
  const Size enough = (static_cast<Size>(kMostThreads) + rows_of_step - 1) / rows_of_step;
  return std::max(kStepsAhead, enough) * rows_of_step;
}

}  // namespace

ReadAhead::ReadAhead(std::shared_ptr<const Samples> samples, const BatchShape& shape)
    : samples_(std::move(samples)), shape_(shape), rows_(static_cast<std::size_t>(rows_ahead(shape.samples()))) {
  for (Row& row : rows_) {
    row.inputs.resize(static_cast<std::size_t>(shape.seq));
    row.targets.resize(static_cast<std::size_t>(shape.seq));
  }
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Size ReadAhead::sample_of(Size job) const {
  const Size rows = shape_.samples();
  return position_ + job / rows * shape_.global_samples() + shape_.sample_of(job % rows);
}

void ReadAhead::take(Size position, std::int32_t* inputs, std::int32_t* targets) {
  const Size rows = shape_.samples();
  std::unique_lock lock(mutex_);
  if (position_ < 0 || position != position_ + taken_ / rows * shape_.global_samples()) restart(lock, position);
  for (Size job = taken_; job < taken_ + rows; ++job) {
    await(lock, job);
    const Row& row = row_of(job);
    if (row.error) {
      const std::exception_ptr error = row.error;
      is_paused_ = true, position_ = -1;  // another call reads again
      std::rethrow_exception(error);
    }
    std::ranges::copy(row.inputs, inputs + (job - taken_) * shape_.seq);
    std::ranges::copy(row.targets, targets + (job - taken_) * shape_.seq);
  }
  for (Size job = taken_; job < taken_ + rows; ++job) row_of(job).is_ready = false;
  taken_ += rows;
  lock.unlock();
  threads_.size() == 1 ? work_.notify_one() : work_.notify_all();
}

void ReadAhead::restart(std::unique_lock<std::mutex>& lock, Size position) {
  is_paused_ = true;
  ready_.wait(lock, [&] { return in_flight_ == 0; });
  is_paused_ = false;
  for (Row& row : rows_) row.error = nullptr, row.is_ready = false;
  position_ = position, begun_ = taken_ = 0;
  work_.notify_all();
}

void ReadAhead::await(std::unique_lock<std::mutex>& lock, Size job) {
  awaited_ = job;
  if (threads_.empty()) add_threads();
  while (!ready_.wait_for(lock, kPatience, [&] { return row_of(job).is_ready; })) add_threads();
  awaited_ = -1;
}

// Doubles the threads. Where the system has no more, those that exist do.
void ReadAhead::add_threads() {
  const std::size_t wanted = std::min(kMostThreads, std::max<std::size_t>(1, 2 * threads_.size()));
  try {
    while (threads_.size() < wanted) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;
  }
}

void ReadAhead::work() {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape_.seq + 1));
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return is_stopped_ || (!is_paused_ && begun_ < taken_ + static_cast<Size>(rows_.size())); });
    if (is_stopped_) return;
    const Size job = begun_++;
    Row& row = row_of(job);
    const Size sample = sample_of(job);
    ++in_flight_;
    lock.unlock();
    try {
      samples_->read_row(sample, row.inputs.data(), row.targets.data(), tokens.data());
    } catch (...) {
      row.error = std::current_exception();
    }
    lock.lock();
    --in_flight_;
    row.is_ready = true;
    if (job == awaited_ || (is_paused_ && in_flight_ == 0)) ready_.notify_one();
  }
}

}  // namespace lt::data
