// Writes from a separate thread, so that only that thread waits for the reader. O_NONBLOCK is no alternative: it would
// also apply to the other processes that share the descriptor.
#include "launch/supervisor/output.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <utility>

namespace lt::launch {
namespace {

constexpr std::size_t kPiece = 4096;                // written to a pipe as a whole
constexpr std::chrono::milliseconds kStalled{500};  // without progress at the end: nobody reads any more

// Blocks all signals in this thread, so that a thread started meanwhile leaves them to the supervising thread.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

enum class Reader { there, gone };

// Takes what was written off `text`. What stays could not be, for example because the disk is full, which may pass.
Reader write_what_fits(int descriptor, std::string_view& text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // another process has set O_NONBLOCK
      pollfd entry{descriptor, POLLOUT, 0};
      ::poll(&entry, 1, -1);
    } else if (errno == EPIPE || errno == EBADF) {
      return Reader::gone;
    } else if (errno != EINTR) {
      break;
    }
  }
  return Reader::there;
}

std::string note_of(std::size_t lost) { return fmt::format("\nlaunch: {} bytes could not be written\n", lost); }

}  // namespace

struct Output::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::string waiting;
  std::size_t dropped = 0;  // bytes that followed those in the queue
  std::size_t pieces = 0;   // written so far
  bool closed = false;      // nothing will be added
  bool left = false;        // the thread has ended
};

Output::Output(int descriptor) : queue_(std::make_shared<Queue>()) {
  const SignalsBlocked blocked;
  thread_ = std::thread([queue = queue_, descriptor] { drain(queue, descriptor); });
}

Output::~Output() {
  std::unique_lock lock(queue_->mutex);
  queue_->closed = true;
  queue_->changed.notify_all();
  while (!queue_->left) {
    const std::size_t before = queue_->pieces;
    if (!queue_->changed.wait_for(lock, kStalled, [&] { return queue_->left || queue_->pieces != before; })) break;
  }
  const bool has_left = queue_->left;
  lock.unlock();
  has_left ? thread_.join() : thread_.detach();
}

void Output::write(std::string_view text) {
  const std::lock_guard lock(queue_->mutex);
  if (queue_->left) return;
  if (queue_->dropped > 0 || queue_->waiting.size() + text.size() > kMostWaiting) {
    queue_->dropped += text.size();
  } else {
    queue_->waiting += text;
  }
  queue_->changed.notify_all();
}

void Output::drain(const std::shared_ptr<Queue>& queue, int descriptor) {
  std::unique_lock lock(queue->mutex);
  bool is_read = true;
  std::size_t lost = 0;  // bytes that could not be written; said with the next text
  while (is_read) {
    queue->changed.wait(lock, [&] { return queue->closed || queue->dropped > 0 || !queue->waiting.empty(); });
    std::string text = std::exchange(queue->waiting, {});
    const std::size_t dropped = std::exchange(queue->dropped, 0);
    if (text.empty() && dropped == 0) break;
    if (dropped > 0) {
      text += fmt::format("{}launch: dropped {} bytes that nobody read in time\n", text.ends_with('\n') ? "" : "\n",
                          dropped);
    }
    for (std::string_view rest = text; is_read && !rest.empty();) {
      const std::string_view piece = rest.substr(0, kPiece);
      const std::string note = lost > 0 ? note_of(lost) : "";
      lock.unlock();
      std::string_view unsaid = note, unwritten = piece;
      is_read = write_what_fits(descriptor, unsaid) == Reader::there;
      if (is_read && unsaid.empty()) is_read = write_what_fits(descriptor, unwritten) == Reader::there;
      lock.lock();
      lost = (unsaid.empty() ? 0 : lost) + unwritten.size();
      ++queue->pieces;
      queue->changed.notify_all();
      rest.remove_prefix(piece.size());
    }
  }
  if (is_read && lost > 0) {
    lock.unlock();
    const std::string note = note_of(lost);
    std::string_view unsaid = note;
    write_what_fits(descriptor, unsaid);
    lock.lock();
  }
  queue->left = true;
  queue->changed.notify_all();
}

}  // namespace lt::launch
