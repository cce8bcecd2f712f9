// Reads the rows of coming steps in threads of its own, so that training does not wait for a slow file system. The rows
// are those that reading in place would give.
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

// One thread serves a file system that answers at once. Threads are added while take() has to wait, so that several
// reads are in flight and their latencies overlap.
class ReadAhead {
 public:
  ReadAhead(std::shared_ptr<const Samples> samples, const BatchShape& shape);
  // Waits for the reads in flight.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Copies this rank's rows of the step that begins at sample `position`, and lets the threads go on with the steps
  // after it. A position that does not follow the last one drops what was read. Throws what a read threw.
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
  std::vector<std::thread> threads_;  // only take() adds any
  std::mutex mutex_;                  // of all below, and of the rows that are not being read
  std::condition_variable work_, ready_;
  Size position_ = -1;          // the sample of job 0; negative: none was taken yet
  Size begun_ = 0, taken_ = 0;  // jobs
  Size awaited_ = -1;           // the job that take() waits for
  Size in_flight_ = 0;
  bool is_paused_ = false, is_stopped_ = false;
};

}  // namespace lt::data
