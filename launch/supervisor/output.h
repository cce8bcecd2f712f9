// The supervisor's output: its own lines and the ranks' output. write() never blocks, because a stalled reader must not
// keep the supervisor from its ranks.
#pragma once

#include <memory>
#include <string_view>
#include <thread>

namespace lt::launch {

class Output {
 public:
  // Bytes queued for the reader at most. Further bytes are dropped, and a line reports their number.
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 20;

  // `descriptor` must stay open until the process ends.
  explicit Output(int descriptor);
  // Waits while the reader makes progress, then drops the rest.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view text);

 private:
  struct Queue;
  static void drain(const std::shared_ptr<Queue>& queue, int descriptor);

  std::shared_ptr<Queue> queue_;  // shared with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace lt::launch
