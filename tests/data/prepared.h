// Reads the files that `prepare` wrote, for its tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "libtrain/data/data.h"
#include "test_main/temp_folder.h"

namespace lt_test {

inline std::vector<std::int32_t> tokens_of(const std::string& path) {
  const lt::TokenFile file(path, lt::TokenFormat::automatic);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.tokens()));
  file.read(0, file.tokens(), tokens.data());
  return tokens;
}

// The bits of a mask, as docs/reference/data-files.md has them; empty if its header or its length are not those of
// `tokens` tokens.
inline std::vector<int> mask_of(const std::string& path, std::size_t tokens) {
  const std::string bytes = read_text(path);
  const auto field = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t b = 0; b < 4; ++b) value |= std::uint32_t{static_cast<unsigned char>(bytes[at + b])} << (8 * b);
    return value;
  };
  if (bytes.size() != 1024 + (tokens + 7) / 8 || field(0) != 20261124 || field(4) != 1 || field(8) != tokens) return {};
  std::vector<int> bits;
  for (std::size_t i = 0; i < tokens; ++i) bits.push_back(bytes[1024 + i / 8] >> (i % 8) & 1);
  return bits;
}

inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// A tokenizer.json with a token for each byte (ids 0 to 255), "th" (256), "the" (257) and these added tokens.
inline std::string byte_level_tokenizer(const std::string& added) {
  std::string vocab;
  for (int byte = 0, other = 256; byte < 256; ++byte) {
    const bool itself = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    char name[16];
    std::snprintf(name, sizeof name, "\\u%04x", itself ? byte : other++);
    vocab += "\"" + std::string(name) + "\":" + std::to_string(byte) + ",";
  }
  return "{\"added_tokens\":[" + added +
         "],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
         "\"model\":{\"type\":\"BPE\",\"vocab\":{" +
         vocab + "\"th\":256,\"the\":257},\"merges\":[\"t h\",\"th e\"]}}";
}
inline constexpr const char* kEndOfText = R"({"id":300,"content":"<|endoftext|>","special":true})";

}  // namespace lt_test
