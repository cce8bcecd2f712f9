// Writes safetensors files.
#include "safetensors.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lt::checkpoint {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file, const std::vector<ParameterInfo>& tensors)
    : file_(create_file(file)), tensors_(tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  Size offset = 0;
  for (const auto& [name, shape] : tensors_) {
    const Size end = offset + shape.elements() * Size{sizeof(float)};
    header[name] = {
        {"dtype", "F32"}, {"shape", std::vector<Size>(shape.begin(), shape.end())}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  file_.write(&length, sizeof length);
  file_.write(text.data(), text.size());
}

void SafetensorsWriter::write(std::span<const float> values) {
  if (next_ == tensors_.size() || static_cast<Size>(values.size()) != tensors_[next_].shape.elements()) {
    throw InternalError("checkpoint", fmt::format("safetensors: tensor {} has {} values", next_, values.size()));
  }
  file_.write(values.data(), values.size_bytes());
  ++next_;
}

void SafetensorsWriter::finish() {
  if (next_ != tensors_.size()) {
    throw InternalError("checkpoint", fmt::format("safetensors: {} of {} tensors written", next_, tensors_.size()));
  }
  file_.sync();
  file_.close();
}

}  // namespace lt::checkpoint
