// Reading blocks with several threads: order, buffers, conversion, errors.
#include "checkpoints/hugging_face/block_reader.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt::checkpoint;

namespace {

constexpr Size kElements = 1000, kBlock = 70;
const std::vector<std::string> kNames{"a", "b", "c"};

// Element i of tensor t is 1000 t + i.
std::string write_file(const std::string& folder) {
  std::vector<ParameterInfo> tensors;
  for (const std::string& name : kNames) tensors.push_back({name, {kElements}});
  const std::string path = folder + "/x.safetensors";
  SafetensorsWriter writer(path, tensors);
  std::vector<float> values(kElements);
  for (std::size_t t = 0; t < kNames.size(); ++t) {
    for (Size i = 0; i < kElements; ++i)
      values[static_cast<std::size_t>(i)] = static_cast<float>(1000 * t) + static_cast<float>(i);
    writer.write(values);
  }
  writer.finish();
  return path;
}

// All blocks of all tensors, to `out` or to the reader's buffers.
std::vector<BlockReader::Block> blocks_of(const SafetensorsReader& file, DType dtype, std::byte* out) {
  std::vector<BlockReader::Block> blocks;
  for (const std::string& name : kNames) {
    for (Size at = 0; at < kElements; at += kBlock) {
      const Size count = std::min(kBlock, kElements - at);
      blocks.push_back({&file, file.find(name), at, count, dtype, out});
      if (out != nullptr) out += count * dtype_bytes(dtype);
    }
  }
  return blocks;
}

}  // namespace

TEST_CASE("blocks come in order, in their places or in buffers, converted", "[checkpoints]") {
  const lt_test::TempFolder folder;
  const SafetensorsReader file(write_file(folder.text()));
  std::vector<float> place(3 * kElements);
  for (const bool in_place : {false, true}) {
    BlockReader reader(blocks_of(file, DType::f32, in_place ? reinterpret_cast<std::byte*>(place.data()) : nullptr));
    Size expected = 0;
    for (const BlockReader::Block& block : blocks_of(file, DType::f32, nullptr)) {
      const auto* const values = static_cast<const float*>(reader.next());
      for (Size i = 0; i < block.count; ++i) REQUIRE(values[i] == static_cast<float>(expected++));
    }
    CHECK(expected == 3 * kElements);
  }
  BlockReader halves(blocks_of(file, DType::bf16, nullptr));
  CHECK(static_cast<const std::uint16_t*>(halves.next())[1] == 0x3f80);  // 1
}

TEST_CASE("a block that cannot be read throws in its turn, and unread blocks are left", "[checkpoints]") {
  const lt_test::TempFolder folder;
  const std::string path = write_file(folder.text());
  const SafetensorsReader file(path);
  { const BlockReader unused(blocks_of(file, DType::f32, nullptr)); }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);  // behind the back of the open file
  BlockReader reader(blocks_of(file, DType::f32, nullptr));
  const std::size_t count = blocks_of(file, DType::f32, nullptr).size();
  for (std::size_t i = 0; i + 1 < count; ++i) CHECK(reader.next() != nullptr);
  CHECK_THROWS_WITH(reader.next(), "x.safetensors: expected 4 more bytes at " +
                                       std::to_string(std::filesystem::file_size(path)) + ", found its end");
}
