// Exports Hugging Face folders for tests, changes them, and returns the messages with which they are refused.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoints/hf_models.h"
#include "checkpoints/hugging_face/hf_folder.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "test_main/message_of.h"

namespace lt_test {

using nlohmann::ordered_json;

using Change = std::function<void(ordered_json&)>;

inline fs::path exported(const HfCase& item, const fs::path& folder) {
  lt::checkpoint::export_hf(save_case(item, folder / "run"), folder / "hf");
  return folder / "hf";
}

inline const HfCase& case_named(const std::vector<HfCase>& cases, const std::string& name) {
  for (const HfCase& item : cases) {
    if (item.name == name) return item;
  }
  throw std::runtime_error(name);
}

inline void change_config(const fs::path& hf, const Change& change) {
  ordered_json config = ordered_json::parse(read_text(hf / "config.json"));
  change(config);
  write_text(hf / "config.json", config.dump());
}

// A safetensors file as it is in memory.
struct Weights {
  ordered_json header;
  std::string payload;

  std::size_t first(const std::string& name) const {
    return header.at(name).at("data_offsets").at(0).get<std::size_t>();
  }
  std::string values(const std::string& name) const {
    return payload.substr(first(name), header.at(name).at("data_offsets").at(1).get<std::size_t>() - first(name));
  }
  // Adds a tensor with the fields and values of another.
  void copy(const std::string& from, const std::string& to) {
    header[to] = header.at(from);
    header[to]["data_offsets"] = {payload.size(), payload.size() + values(from).size()};
    payload += values(from);
  }
  // Gives a tensor the values of another of its shape.
  void overwrite(const std::string& name, const std::string& from) {
    const std::string bytes = values(from);
    payload.replace(first(name), bytes.size(), bytes);
  }
};

inline void write_weights(const fs::path& hf, const std::string& header, const std::string& payload) {
  const std::uint64_t bytes = header.size();
  write_text(hf / "model.safetensors", std::string(reinterpret_cast<const char*>(&bytes), 8) + header + payload);
}

inline Weights read_weights(const fs::path& hf) {
  const std::string bytes = read_text(hf / "model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  return {ordered_json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
}

inline void change_weights(const fs::path& hf, const std::function<void(Weights&)>& change) {
  Weights weights = read_weights(hf);
  change(weights);
  write_weights(hf, weights.header.dump(), weights.payload);
}

// The message without the folder's path.
inline std::string refusal(const fs::path& hf) {
  const std::string message = message_of<lt::DataError>([&] { lt::checkpoint::HfFolder folder(hf.string()); });
  const std::string path = hf.string() + "/";
  return message.starts_with(path) ? message.substr(path.size()) : message;
}

}  // namespace lt_test
