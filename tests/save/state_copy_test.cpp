// Copies of an engine's state: they take few transfers, and every range is in its place.
#include "save/state_copy.h"

#include <cstring>

#include "libtrain/libtrain.h"
#include "tensor/host_memory.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::saver;

TEST_CASE("state copy: no transfer over the end of a block of memory", "[train]") {
  nn::Gpt2 model({.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8});
  Engine engine(model, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  const Size elements = checkpoint::kCopyAlignment, bytes = elements * Size{sizeof(float)};
  const std::shared_ptr<void> memory = tensor::host_memory(kCpu, 2 * bytes);
  const std::shared_ptr<void> behind(memory, static_cast<std::byte*>(memory.get()) + bytes);
  const Tensor first = tensor::tensor_over(memory, elements), second = tensor::tensor_over(behind, elements);
  CHECK_FALSE(first.shares_storage(second));
  const auto range = [&](const std::string& kind, const Tensor& values) {
    return StateRange{"w", kind, 0, values.elements(), values};
  };
  CHECK(StateCopy(engine, {range("m", first), range("v", second)}).transfers() == 2);
  const Tensor left = first.narrow(0, 0, elements / 2);
  CHECK(StateCopy(engine, {range("v", second), range("m", left)}).transfers() == 2);
}

TEST_CASE("state copy: its layout does not depend on where blocks of memory lie", "[train]") {
  nn::Gpt2 model({.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8});
  Engine engine(model, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  const Size elements = 2 * checkpoint::kCopyAlignment, bytes = elements * Size{sizeof(float)};
  const std::shared_ptr<void> memory = tensor::host_memory(kCpu, 2 * bytes);
  const auto block_at = [&](Size at) {
    return tensor::tensor_over(std::shared_ptr<void>(memory, static_cast<std::byte*>(memory.get()) + at), elements);
  };
  const auto layout_of = [&](const Tensor& one, const Tensor& other) {
    const auto half = [&](const std::string& kind, const Tensor& block, Size begin) {
      return StateRange{"w", kind, 0, elements / 2, block.narrow(0, begin, elements / 2)};
    };
    return to_text(
        StateCopy(engine, {half("m", one, elements / 2), half("v", other, 0), half("master", one, 0)}).layout());
  };
  CHECK(layout_of(block_at(0), block_at(bytes)) == layout_of(block_at(bytes), block_at(0)));
}

TEST_CASE("state copy: one transfer a unit and kind of state, and the values of each range", "[train]") {
  constexpr Size kLayers = 6;
  nn::Gpt2 model({.layers = kLayers, .heads = 2, .width = 32, .vocab = 256, .max_seq = 8});
  Engine engine(model, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  const std::vector<StateRange> owned = engine.shard_map().owned;
  float value = 0;
  for (const StateRange& range : owned) fill(range.values, value++);
  const StateCopy copy(engine, owned);
  CHECK(copy.transfers() <= 3 * (kLayers + 2));
  CHECK(static_cast<Size>(owned.size()) > 3 * 12 * kLayers);

  const auto memory = tensor::host_memory(kCpu, copy.bytes());
  copy.start(memory.get()).synchronize();
  const std::vector<StateRange> copied = copy.ranges_in(memory);
  REQUIRE(copied.size() == owned.size());
  for (std::size_t i = 0; i < owned.size(); ++i) {
    CHECK(copied[i].parameter == owned[i].parameter);
    CHECK(copied[i].values.to_vector<float>() == owned[i].values.to_vector<float>());
    CHECK(copy.layout()[i].parameter == owned[i].parameter);
  }
}
