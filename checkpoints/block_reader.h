// Reads blocks of safetensors files in a thread of its own, some ahead of the caller, who meanwhile converts and copies
// those before.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "safetensors.h"

namespace lt::checkpoint {

class BlockReader {
 public:
  // `count` elements of a tensor from `begin` on: at most kBlockBytes as the file stores them.
  struct Block {
    const SafetensorsReader* file;
    const SafetensorsEntry* entry;
    Size begin, count;
  };

  // The files must outlive it.
  explicit BlockReader(std::vector<Block> blocks);
  // Waits for the block that is being read.
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  // The next block's values as stored, until the next call. Throws the DataError that reading them threw.
  const void* next();

 private:
  static constexpr std::size_t kAhead = 4;

  void run();

  std::vector<Block> blocks_;
  std::array<std::vector<std::byte>, kAhead> buffers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t read_ = 0, taken_ = 0;  // blocks; the last one taken is in use
  bool stops_ = false;
  std::exception_ptr error_;  // of block number read_
  std::thread thread_;
};

}  // namespace lt::checkpoint
