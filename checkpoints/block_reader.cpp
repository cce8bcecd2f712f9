// Reads blocks of safetensors files in a thread of its own.
#include "block_reader.h"

#include <utility>

#include "layout.h"

namespace lt::checkpoint {

BlockReader::BlockReader(std::vector<Block> blocks) : blocks_(std::move(blocks)) {
  if (blocks_.empty()) return;
  for (std::vector<std::byte>& buffer : buffers_) buffer.resize(static_cast<std::size_t>(kBlockBytes));
  thread_ = std::thread([this] { run(); });
}

BlockReader::~BlockReader() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BlockReader::run() {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stops_ || i + 1 < taken_ + kAhead; });
      if (stops_) return;
    }
    std::exception_ptr error;
    try {
      const Block& block = blocks_[i];
      block.file->read(*block.entry, block.begin, block.count, block.entry->dtype.value(), buffers_[i % kAhead].data());
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      error ? static_cast<void>(error_ = error) : static_cast<void>(++read_);
    }
    changed_.notify_all();
    if (error) return;
  }
}

const void* BlockReader::next() {
  std::unique_lock lock(mutex_);
  ++taken_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return read_ >= taken_ || error_ != nullptr; });
  if (read_ < taken_) std::rethrow_exception(error_);
  return buffers_[(taken_ - 1) % kAhead].data();
}

}  // namespace lt::checkpoint
