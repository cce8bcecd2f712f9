// What the supervisor prints: its own lines, and those of the ranks. Whoever writes never waits, because a reader that
// stalls must not keep the supervisor from its ranks.
#pragma once

#include <memory>
#include <string_view>
#include <thread>

namespace lt::launch {

class Output {
 public:
  // More than this waits for no reader: what comes then is dropped, and a line tells how much.
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 20;

  // `descriptor` stays open until the process ends.
  explicit Output(int descriptor);
  // Waits as long as the reader takes something. What it leaves is lost.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view text);

 private:
  struct Queue;
  static void drain(const std::shared_ptr<Queue>& queue, int descriptor);

  std::shared_ptr<Queue> queue_;  // shared with a thread that was left behind
  std::thread thread_;
};

}  // namespace lt::launch
