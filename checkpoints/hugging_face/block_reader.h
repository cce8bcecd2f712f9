// Reads blocks of safetensors files in its own threads, some blocks ahead of the caller, and converts them.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "checkpoints/hugging_face/safetensors.h"

namespace lt::checkpoint {

class BlockReader {
 public:
  // Elements [begin, begin + count) of a tensor, converted to `dtype`. Together at most kBlockBytes in that dtype.
  struct Block {
    const SafetensorsReader* file;
    const SafetensorsEntry* entry;
    Size begin, count;
    DType dtype;
    void* out;  // receives the elements; null: a buffer of the reader
  };

  // The files must outlive it.
  explicit BlockReader(std::vector<Block> blocks);
  // Waits for the blocks that are being read.
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  // Waits for the next block in order and returns its values: Block::out, or a buffer that is valid until the next
  // call. Throws the DataError of a failed read.
  const void* next();

 private:
  static constexpr std::size_t kAhead = 8;  // blocks being read or waiting for next()
  static constexpr int kMostThreads = 4;

  struct Slot {
    std::vector<std::byte> buffer;
    bool is_read = false;
    std::exception_ptr error;
  };

  void run();
  void read(std::size_t i);

  std::vector<Block> blocks_;
  std::array<Slot, kAhead> slots_;  // block i uses slot i % kAhead
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t begun_ = 0, taken_ = 0;  // blocks; the last one taken is in use
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lt::checkpoint
