// Threads take blocks in order, at most kAhead beyond the block that the caller uses.
#include "checkpoints/hugging_face/block_reader.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "checkpoints/format/layout.h"
#include "kernels/threads.h"

namespace lt::checkpoint {

BlockReader::BlockReader(std::vector<Block> blocks) : blocks_(std::move(blocks)) {
  const auto budget = static_cast<std::size_t>(std::clamp(kernels::threads(), 1, kMostThreads));
  try {
    while (threads_.size() < std::min(budget, blocks_.size())) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {  // the host gives no more threads; those that run are enough
    if (threads_.empty()) throw;
  }
}

BlockReader::~BlockReader() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockReader::run() {
  kernels::set_threads(1);  // waking a team for each block would take longer than the block
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stops_ || begun_ == blocks_.size() || begun_ + 1 < taken_ + kAhead; });
    if (stops_ || begun_ == blocks_.size()) return;
    const std::size_t i = begun_++;
    lock.unlock();
    read(i);
    lock.lock();
    slots_[i % kAhead].is_read = true;
    changed_.notify_all();
  }
}

void BlockReader::read(std::size_t i) {
  const Block& block = blocks_[i];
  Slot& slot = slots_[i % kAhead];
  try {
    if (block.out == nullptr) slot.buffer.resize(static_cast<std::size_t>(kBlockBytes));
    void* const to = block.out != nullptr ? block.out : slot.buffer.data();
    block.file->read(*block.entry, block.begin, block.count, block.dtype, to);
  } catch (...) {
    slot.error = std::current_exception();
  }
}

const void* BlockReader::next() {
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[taken_ % kAhead];
  const Block& block = blocks_[taken_];
  ++taken_;
  changed_.notify_all();  // the block before is free
  changed_.wait(lock, [&] { return slot.is_read; });
  slot.is_read = false;
  if (slot.error != nullptr) std::rethrow_exception(slot.error);
  return block.out != nullptr ? block.out : slot.buffer.data();
}

}  // namespace lt::checkpoint
