// Writes safetensors files: u64 header length, a JSON header padded with spaces to a multiple of 8 bytes, then the
// tensors one after another. Format: https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "files.h"
#include "libtrain/tensor/shard_map.h"

namespace lt::checkpoint {

// Writes f32 tensors in the announced order, so that only one need be in memory.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& file, const std::vector<ParameterInfo>& tensors);

  // Writes the next tensor. Throws InternalError if the number of values does not match its shape.
  void write(std::span<const float> values);
  // Fsyncs and closes the file. Throws InternalError if tensors are missing.
  void finish();

 private:
  OpenFile file_;
  std::vector<ParameterInfo> tensors_;
  std::size_t next_ = 0;
};

}  // namespace lt::checkpoint
