// Reads and writes safetensors files: u64 header length, a JSON header padded with spaces to a multiple of 8 bytes,
// then the tensors one after another. Format: https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoints/format/files.h"
#include "libtrain/tensor/shard_map.h"

namespace lt::checkpoint {

// Writes tensors in the order given to the constructor, so that only one must be in memory.
class SafetensorsWriter {
 public:
  // `dtype` is f32, bf16 or f16.
  SafetensorsWriter(const std::filesystem::path& file, const std::vector<ParameterInfo>& tensors,
                    DType dtype = DType::f32);

  // Writes the next tensor, rounded to the file's dtype. Throws InternalError if the number of values does not match
  // its shape.
  void write(std::span<const float> values);
  // Fsyncs and closes the file. Throws InternalError if tensors are missing.
  void finish();

 private:
  io::CheckedFile file_;
  std::vector<ParameterInfo> tensors_;
  DType dtype_;
  std::size_t next_ = 0;
};

// One tensor of a file. Its values lie contiguously at byte `offset` of the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;      // "F32", "BF16", ...
  std::optional<DType> dtype;  // nullopt: not a floating type of this library
  Shape shape;                 // no dimensions if it has more than a Shape can hold
  std::string long_shape;      // in that case the header's text, shortened if long
  Size offset = 0, bytes = 0;

  std::string shape_text() const { return long_shape.empty() ? to_string(shape) : long_shape; }
};

// Reads parts of tensors. No file can make it read outside the file or use more memory than the header's size
// justifies. Errors start with the file's name.
class SafetensorsReader {
 public:
  // Reads the header. Throws DataError unless the file is a whole safetensors file, in which each byte after the header
  // belongs to exactly one tensor.
  explicit SafetensorsReader(const std::filesystem::path& file);

  const std::string& name() const { return name_; }  // of the file
  const std::vector<SafetensorsEntry>& tensors() const { return tensors_; }
  // Null if there is no such tensor.
  const SafetensorsEntry* find(const std::string& name) const;
  // out[0, count) = elements [begin, begin + count) of the tensor, which must have a dtype, converted to `dtype`.
  void read(const SafetensorsEntry& tensor, Size begin, Size count, DType dtype, void* out) const;

 private:
  std::string name_;
  io::CheckedFile file_;
  std::vector<SafetensorsEntry> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace lt::checkpoint
