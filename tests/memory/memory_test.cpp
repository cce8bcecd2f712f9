// The allocator and its ledger: bytes by owner, high-water marks, alignment and the reuse of blocks.
#include "libtrain/memory/memory.h"

#include <algorithm>
#include <thread>

#include "libtrain/error.h"
#include "libtrain/tensor/tensor.h"
#include "memory/allocation.h"
#include "memory/allocator.h"
#include "memory/blocks.h"
#include "memory/poison.h"
#include "test_main/catch.h"
#include "test_main/resource_limit.h"

using namespace lt;
using namespace lt::memory;
using namespace lt_test;

namespace {

struct Growth {
  explicit Growth(Device device) : device_(device), before_(memory_live(device)) {}
  Size of(MemoryOwner owner) const { return (memory_live(device_).of(owner) - before_.of(owner)) / kBlock; }
  Size total() const { return (memory_live(device_).total - before_.total) / kBlock; }

 private:
  Device device_;
  MemoryUse before_;
};

}  // namespace

TEST_CASE("ledger: a tensor counts for the owner of its scope, and scopes nest", "[memory]") {
  for (const Device device : {kCpu, kMeta}) {
    INFO(to_string(device));
    const Growth growth(device);
    {
      const Tensor outside = take(1, device);
      CHECK(growth.of(MemoryOwner::activations) == 1);
      const MemoryScope parameters(MemoryOwner::parameters);
      const Tensor a = take(2, device);
      Tensor c;
      {
        const MemoryScope workspace(MemoryOwner::workspace);
        const Tensor b = take(4, device);
        c = take(8, device);
        CHECK(growth.of(MemoryOwner::workspace) == 12);
      }
      CHECK(growth.of(MemoryOwner::workspace) == 8);  // a block keeps its owner after the scope
      const Tensor d = take(16, device);
      CHECK(growth.of(MemoryOwner::parameters) == 18);
      CHECK(growth.total() == 27);
    }
    CHECK(growth.total() == 0);
    for (int owner = 0; owner < kMemoryOwners; ++owner) CHECK(growth.of(static_cast<MemoryOwner>(owner)) == 0);
  }
}

TEST_CASE("freed blocks of ever new sizes return to the system", "[memory]") {
  constexpr Size kMiB = Size{1} << 20;
  Size most = 0;
  for (Size i = 1; i <= 200; ++i) {  // 39 GiB in all
    Tensor::empty({i * kMiB}, DType::bf16);
    most = std::max(most, kept_bytes());
  }
  CHECK(most > 1024 * kMiB);
  CHECK(most < 6 * 1024 * kMiB);  // other tests take 2 GiB at once
}

TEST_CASE("ledger: a scope is of its thread", "[memory]") {
  const MemoryScope scope(MemoryOwner::optimizer);
  MemoryOwner other = MemoryOwner::optimizer;
  std::thread([&] { other = Context::current().owner; }).join();
  CHECK(other == MemoryOwner::activations);
  CHECK(Context::current().owner == MemoryOwner::optimizer);
}

TEST_CASE("ledger: bytes are counted in whole blocks, views count nothing", "[memory]") {
  const Growth growth(kCpu);
  const Tensor one = Tensor::empty({1}, DType::u8);
  CHECK(growth.total() == 1);
  const Tensor full = Tensor::empty({kBlock / 4}, DType::f32);
  CHECK(growth.total() == 2);
  const Tensor more = Tensor::empty({kBlock / 4 + 1}, DType::f32);
  CHECK(growth.total() == 4);
  const Tensor none = Tensor::empty({0, 5}, DType::f32);
  CHECK(growth.total() == 4);
  {
    Tensor base = take(3);
    const Tensor view = base.narrow(0, 0, 5);
    CHECK(growth.total() == 7);
    base = Tensor();
    CHECK(growth.total() == 7);  // the view holds the whole block
  }
  CHECK(growth.total() == 4);
}

TEST_CASE("ledger: the peak keeps the breakdown of its moment", "[memory]") {
  const Growth growth(kMeta);
  const MemoryUse before = memory_live(kMeta);
  reset_memory_peak(kMeta);
  CHECK(memory_peak(kMeta).total == before.total);
  {
    const MemoryScope scope(MemoryOwner::gradients);
    const Tensor gradients = take(10, kMeta);
  }
  {
    const MemoryScope scope(MemoryOwner::communication);
    const Tensor a = take(6, kMeta), b = take(5, kMeta);
  }
  const MemoryUse peak = memory_peak(kMeta), alone = memory_peak_by_owner(kMeta);
  CHECK(peak.total - before.total == 11 * kBlock);
  CHECK(peak.of(MemoryOwner::communication) - before.of(MemoryOwner::communication) == 11 * kBlock);
  CHECK(peak.of(MemoryOwner::gradients) == before.of(MemoryOwner::gradients));
  // Each owner's own mark, at whatever moment.
  CHECK(alone.of(MemoryOwner::gradients) - before.of(MemoryOwner::gradients) == 10 * kBlock);
  CHECK(alone.of(MemoryOwner::communication) - before.of(MemoryOwner::communication) == 11 * kBlock);
  CHECK(alone.total == peak.total);

  const Tensor held = take(2, kMeta);
  reset_memory_peak(kMeta);
  CHECK(memory_peak(kMeta).total == before.total + 2 * kBlock);
  CHECK(growth.total() == 2);
}

TEST_CASE("allocator: meta counts what pages of a CUDA device would add to large blocks", "[memory]") {
  const Size before = meta_rounding_bytes(), mebibyte = Size{1} << 20;
  const auto rounding = [&] { return meta_rounding_bytes() - before; };
  {
    const Tensor small = Tensor::empty({mebibyte}, DType::u8, kMeta);
    CHECK(rounding() == 0);
    const Tensor one_page = Tensor::empty({2 * mebibyte}, DType::u8, kMeta);
    CHECK(rounding() == 0);
    const Tensor two_pages = Tensor::empty({2 * mebibyte + 1}, DType::u8, kMeta);
    CHECK(rounding() == 2 * mebibyte - kBlock);
    const Tensor part_of_one = Tensor::empty({mebibyte + kBlock}, DType::u8, kMeta);
    CHECK(rounding() == 3 * mebibyte - 2 * kBlock);
  }
  CHECK(rounding() == 0);
}

TEST_CASE("allocator: blocks are aligned, and a freed one serves the next request of its size", "[memory]") {
  for (const Size bytes : {1, 127, 128, 129, 4096, 100000}) {
    Tensor tensor = Tensor::empty({bytes}, DType::u8);
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.data());
    CHECK(address % kAllocationAlignment == 0);
    const Tensor second = Tensor::empty({bytes}, DType::u8);
    CHECK(second.data() != tensor.data());
    tensor = Tensor();
    tensor = Tensor::empty({bytes}, DType::u8);
    CHECK(reinterpret_cast<std::uintptr_t>(tensor.data()) == address);
  }
}

#ifndef __SANITIZE_ADDRESS__  // its allocator ends the process where the system refuses memory
TEST_CASE("allocator: where the system has no memory left, freed blocks make room for another size", "[memory]") {
  constexpr Size kMebibyte = Size{1} << 20;
  trim(kCpu);
  static_cast<void>(Tensor::empty({768 * kMebibyte}, DType::u8));
  const AddressSpaceLimit limit(512 * kMebibyte);
  CHECK(Tensor::empty({1024 * kMebibyte}, DType::u8).data() != nullptr);
  CHECK_THROWS_WITH(Tensor::empty({2048 * kMebibyte}, DType::u8), Catch::Matchers::ContainsSubstring("bytes left"));
  trim(kCpu);
}
#endif

#ifdef __SANITIZE_ADDRESS__
TEST_CASE("under AddressSanitizer free blocks and what a block holds beyond its tensor are out of bounds", "[memory]") {
  Tensor tensor = Tensor::empty({130}, DType::u8);
  const auto* bytes = tensor.data<std::uint8_t>();
  CHECK(__asan_address_is_poisoned(bytes) == 0);
  CHECK(__asan_address_is_poisoned(bytes + 129) == 0);
  CHECK(__asan_address_is_poisoned(bytes + 130) == 1);
  CHECK(__asan_address_is_poisoned(bytes + 255) == 1);
  tensor = Tensor();
  CHECK(__asan_address_is_poisoned(bytes) == 1);
  tensor = Tensor::empty({256}, DType::u8);
  REQUIRE(tensor.data<std::uint8_t>() == bytes);
  CHECK(__asan_address_is_poisoned(bytes + 255) == 0);
}
#endif

TEST_CASE("meta counts the same bytes as the CPU, of any size", "[memory]") {
  const MemoryUse before = memory_live(kMeta);
  const Growth cpu(kCpu), meta(kMeta);
  const Tensor a = Tensor::empty({3, 1000}, DType::bf16), b = Tensor::empty({3, 1000}, DType::bf16, kMeta);
  CHECK(cpu.total() == meta.total());
  const Tensor huge = Tensor::empty({1 << 20, 1 << 20, 1 << 10}, DType::f32, kMeta);  // 4 PiB
  CHECK(memory_live(kMeta).total - before.total == (Size{1} << 52) + 6016);
}
