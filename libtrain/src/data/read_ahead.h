// Reads the rows of future steps in background threads, so that training does not wait for a slow file system. The rows
// are the same as without reading ahead.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/samples.h"
#include "libtrain/tensor/batch.h"

namespace lt::data {

// Starts with one thread, enough for a fast file system. While take() has to wait, threads are added, up to 32, so that
// the latencies of several reads overlap.
class ReadAhead {
 public:
  ReadAhead(std::shared_ptr<const Samples> samples, const BatchShape& shape);
  // Waits for the reads in flight.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Copies this rank's rows of the step that begins at sample `position`, and lets the threads read the next steps. If
  // `position` does not follow the last one, drops the rows that were read. Rethrows the error of a read.
  void take(Size position, std::int32_t* inputs, std::int32_t* targets);

  std::size_t threads() const { return threads_.size(); }

 private:
  struct Row {
    std::vector<std::int32_t> inputs, targets;
    std::exception_ptr error;
    bool is_ready = false;
  };
  // Job n is row n mod (rows of a step) of step n / (rows of a step), from `position_` on.
  Row& row_of(Size job) { return rows_[static_cast<std::size_t>(job) % rows_.size()]; }
  Size sample_of(Size job) const;

  void restart(std::unique_lock<std::mutex>& lock, Size position);
  void await(std::unique_lock<std::mutex>& lock, Size job);
  void add_threads();
  void work();

  const std::shared_ptr<const Samples> samples_;
  const BatchShape shape_;
  std::vector<Row> rows_;
  std::vector<std::thread> threads_;  // only take() adds threads
  std::mutex mutex_;                  // guards the members below and the rows that no thread is filling
  std::condition_variable work_, ready_;
  Size position_ = -1;          // sample of job 0; negative before the first take() and after an error
  Size begun_ = 0, taken_ = 0;  // jobs
  Size awaited_ = -1;           // the job that take() waits for
  Size in_flight_ = 0;
  bool is_paused_ = false, is_stopped_ = false;
};

}  // namespace lt::data
