// Packs lifetimes, records a step's allocations and replays them in an arena.
#include "memory/arena.h"

#include <random>

#include "libtrain/error.h"
#include "libtrain/profile/operation.h"
#include "libtrain/tensor/tensor.h"
#include "memory/blocks.h"
#include "memory/poison.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::memory;
using namespace lt_test;

namespace {

// Random lifetimes from `seed`: blocks of 1 to 64 units that nest, chain and cross.
std::vector<Lifetime> random_lifetimes(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::vector<Lifetime> lifetimes(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    Lifetime& entry = lifetimes[static_cast<std::size_t>(i)];
    entry.bytes = kBlock * static_cast<Size>(1 + random() % 64);
    entry.begin = static_cast<std::int64_t>(random() % 1000);
    entry.end = entry.begin + 1 + static_cast<std::int64_t>(random() % (i % 3 == 0 ? 1000 : 20));
  }
  return lifetimes;
}

void third(std::vector<const void*>* places = nullptr) {
  const OperationScope operation("third");
  const MemoryScope owner(MemoryOwner::workspace);
  const Tensor c = take(4);
  if (places != nullptr) places->push_back(c.data());
}

// Three blocks: the first two live together, the third after them.
void program() {
  { const Tensor a = take(2), b = take(3); }
  third();
}

}  // namespace

TEST_CASE("pack: blocks that live together do not overlap, and the arena holds them all", "[memory]") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto lifetimes = random_lifetimes(seed, 10 + static_cast<int>(seed) * 10);
    const Packing packing = pack(lifetimes);
    REQUIRE(packing.offsets.size() == lifetimes.size());
    Size top = 0;
    for (std::size_t i = 0; i < lifetimes.size(); ++i) {
      CHECK(packing.offsets[i] >= 0);
      CHECK(packing.offsets[i] % kBlock == 0);
      top = std::max(top, packing.offsets[i] + lifetimes[i].bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together = lifetimes[i].begin < lifetimes[j].end && lifetimes[j].begin < lifetimes[i].end;
        const bool apart = packing.offsets[i] + lifetimes[i].bytes <= packing.offsets[j] ||
                           packing.offsets[j] + lifetimes[j].bytes <= packing.offsets[i];
        if (together && !apart) FAIL("seed " << seed << ": blocks " << i << " and " << j << " overlap");
      }
    }
    CHECK(packing.bytes == top);
    CHECK(packing.bytes >= most_live_bytes(lifetimes));
  }
}

TEST_CASE("pack: nothing, one block, and a chain that one block's bytes hold", "[memory]") {
  CHECK(pack({}).bytes == 0);
  CHECK(pack({{kBlock, 0, 1, {}, ""}}).bytes == kBlock);
  CHECK(pack({{kBlock, 0, 2, {}, ""}, {kBlock, 2, 4, {}, ""}, {kBlock, 4, 5, {}, ""}}).bytes == kBlock);
}

TEST_CASE("arena: the k-th allocation gets the k-th place, and the ledger's total stands still", "[memory]") {
  const auto recorded = std::make_shared<const MemoryPlan>(record_memory_plan("program", kCpu, program));
  REQUIRE(recorded->lifetimes.size() == 3);
  CHECK(recorded->packing.bytes == 5 * kBlock);
  CHECK(recorded->lifetimes[2].operation == "third");
  const Size before = memory_live(kCpu).total;
  const Arena arena(recorded->packing.bytes, kCpu);
  CHECK(memory_live(kCpu).total == before + 5 * kBlock);
  std::vector<const void*> first;
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<const void*> places;
    arena.run(recorded, [&] {
      {
        const Tensor a = take(2), b = take(3);
        places = {a.data(), b.data()};
        CHECK(memory_live(kCpu).of(MemoryOwner::slack) == 0);
        CHECK(memory_live(kCpu).total == before + 5 * kBlock);
      }
      third(&places);
    });
    if (turn == 0) first = places;
    CHECK(places == first);
  }
}

TEST_CASE("arena: what was not recorded is an error that names both", "[memory]") {
  const auto recorded = std::make_shared<const MemoryPlan>(record_memory_plan("program", kCpu, program));
  const Arena arena(recorded->packing.bytes, kCpu);
  const auto other_operation = [] {
    const OperationScope operation("first");
    program();
  };
  CHECK_THROWS_WITH(
      arena.run(recorded, other_operation),
      "program, allocation 1: expected 256 bytes of activations, found 256 bytes of activations in first");
  const auto other_size = [] {
    const OperationScope operation("first");
    take(9);
  };
  CHECK_THROWS_WITH(
      arena.run(recorded, other_size),
      "program, allocation 1: expected 256 bytes of activations, found 1152 bytes of activations in first");
  CHECK_THROWS_WITH(arena.run(recorded, [] {}), "program: expected 3 allocations, found 0");
  CHECK_THROWS_WITH(arena.run(recorded, [] { program(), take(1); }),
                    Catch::Matchers::ContainsSubstring("expected no allocation after the last of 3"));
  Tensor escaped;
  CHECK_THROWS_WITH(record_memory_plan("leak", kCpu, [&] { escaped = take(1); }),
                    Catch::Matchers::ContainsSubstring("leak: expected all blocks back at its end"));
  CHECK_THROWS_WITH(Arena(kBlock, kCpu).run(recorded, program),
                    Catch::Matchers::ContainsSubstring("expected an arena of 640 bytes"));
  arena.run(recorded, program);  // works again
}

#ifdef __SANITIZE_ADDRESS__
TEST_CASE("arena: a block is out of bounds after its lifetime", "[memory]") {
  const auto recorded = std::make_shared<const MemoryPlan>(record_memory_plan("program", kCpu, program));
  const Arena arena(recorded->packing.bytes, kCpu);
  arena.run(recorded, [&] {
    const void* gone = nullptr;
    {
      const Tensor a = take(2), b = take(3);
      gone = b.data();
      CHECK(__asan_address_is_poisoned(gone) == 0);
    }
    CHECK(__asan_address_is_poisoned(gone) == 1);
    third();
  });
}
#endif
