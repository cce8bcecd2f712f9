// The output of the supervisor: its own lines, and those of the ranks. Writing never blocks, because a stalled reader
// must not keep the supervisor from its ranks.
#pragma once

#include <memory>
#include <string_view>
#include <thread>

namespace lt::launch {

class Output {
 public:
  // The limit of bytes queued for the reader. More is dropped, and a line reports how much.
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 20;

  // `descriptor` must stay open until the process ends.
  explicit Output(int descriptor);
  // Waits while the reader makes progress. The rest is lost.
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
