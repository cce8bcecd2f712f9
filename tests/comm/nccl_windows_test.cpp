// Gathers and reductions by copies into peers' windows (symmetric memory), and the memory that windows take.
#include <algorithm>
#include <cstdio>
#include <string>

#include "comm/nccl.h"
#include "device/cuda.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "memory/allocation.h"
#include "memory/allocator.h"
#include "test_main/armed_fault.h"

using namespace lt_test;
using lt::DType;
using lt::Group;
using lt::Size;
using lt::Tensor;

namespace {

Size free_bytes() {
  const lt::device::cuda::DeviceMemory memory = lt::device::cuda::memory(gpu().index);
  return memory.total - memory.used;
}

}  // namespace

// If this machine has no windows, compares gathers in plain memory, and the cases below return at once.
TEST_CASE("nccl: all_gather in windows gives the bytes that it gives elsewhere", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl().duplicate("gather");
  const lt::PeerMemory memory = group.peer_memory(gpu());
  CHECK((memory.windows == nullptr) == !memory.why_none.empty());
  const lt::PeerMemory again = group.peer_memory(gpu());
  CHECK(again.windows == memory.windows);
  CHECK(group.peer_memory(lt::kCpu).windows == nullptr);
  if (memory.windows == nullptr) {
    if (world().rank() == 0) std::printf("no symmetric windows: %s\n", memory.why_none.c_str());
  }
  const Size live = lt::memory_live(gpu()).of(lt::MemoryOwner::activations);
  for (const Size n : sizes()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      INFO("n " << n << " dtype " << lt::dtype_name(dtype));
      const Tensor mine = contribution(world().rank(), n, dtype), expected = contribution(world().rank(), n, dtype);
      cpu().all_gather("cpu", expected, part_of(expected)).wait();
      // Parts may differ in size between ranks, but blocks of a window may not.
      const Size most = Group::part_size(n, world().size(), 0);
      Tensor full, part, in_place;
      {
        const lt::memory::AllocationScope scope(memory.windows, gpu());
        full = Tensor::empty({n}, dtype, gpu()), in_place = Tensor::empty({n}, dtype, gpu());
        part = Tensor::empty({most}, dtype, gpu()).narrow(0, 0, part_of(mine).elements());
      }
      copy_bytes(full, like(mine, 0)), copy_bytes(part, part_of(mine)), copy_bytes(in_place, mine);
      group.all_gather("apart", full, part).wait();
      group.all_gather("in place", in_place, part_of(in_place)).wait();
      CHECK(values_of(full) == values_of(expected));
      CHECK(values_of(in_place) == values_of(expected));
      // Only one side in a window, and a collective that is no gather.
      const Tensor plain = on_device(like(mine, 0));
      group.all_gather("to plain", plain, part).wait();
      CHECK(values_of(plain) == values_of(expected));
      group.broadcast("in a window", full, world().size() - 1).wait();
      CHECK(values_of(full) == values_of(expected));
    }
  }
  CHECK(lt::memory_live(gpu()).of(lt::MemoryOwner::activations) == live);
}

TEST_CASE("nccl: reduce_scatter in windows adds as CPU ranks do", "[comm][nccl]") {
  if (skipped()) return;
  const Group gather = nccl().duplicate("gather");
  const lt::PeerMemory memory = gather.peer_memory(gpu());
  const Group group = gather.duplicate("reduce");
  CHECK(group.peer_memory(gpu()).windows == memory.windows);
  const Group slices = group.duplicate_in_slices("slices", Size{64} << 10);
  const auto arriving = [](const Group& which) {
    return staged(which.on_meta(gpu()), Size{840} * 1024, DType::f32, DType::f32, true);
  };
  CHECK(arriving(slices) < arriving(group));
  CHECK(arriving(slices.duplicate("made of slices")) == arriving(slices));
  for (const Size n : {Size{840}, Size{840} * 1024}) {
    for (const auto& [dtype, wire] : {std::pair{DType::f32, DType::f32}, std::pair{DType::f32, DType::bf16}}) {
      INFO("n " << n << " wire " << lt::dtype_name(wire));
      const Tensor full = contribution(world().rank(), n, dtype), device_full = on_device(full);
      const Tensor part = like(part_of(full), 0.5), device_part = on_device(part), sliced_part = on_device(part);
      const Tensor squares = on_device(tensor_of({-1.0}, DType::f64)), sliced_squares = on_device(like(squares, -1));
      for (int round = 0; round < 3; ++round) {
        cpu().reduce_scatter("cpu", part, full, wire, {{part}}).wait();
        const lt::memory::AllocationScope scope(memory.windows, gpu());
        group.reduce_scatter("in windows", device_part, device_full, wire, {{device_part}}, {squares}).wait();
        slices.reduce_scatter("in slices", sliced_part, device_full, wire, {{sliced_part}}, {sliced_squares}).wait();
      }
      CHECK(values_of(device_part) == values_of(part));
      CHECK(values_of(sliced_part) == values_of(part));
      CHECK(values_of(sliced_squares) == values_of(squares));
      // Several addends, and squares by pieces, which slices do not respect.
      const Tensor other = like(part, 0.25), device_other = on_device(other);
      const Size piece = part.elements() / (n > 1024 ? 4 : 1);
      cpu().reduce_scatter("cpu", part, full, wire, {{other, part}}).wait();
      {
        const lt::memory::AllocationScope scope(memory.windows, gpu());
        group
            .reduce_scatter("in windows", device_part, device_full, wire, {{device_other, device_part}},
                            {squares, piece})
            .wait();
        slices
            .reduce_scatter("in slices", sliced_part, device_full, wire, {{device_other, sliced_part}},
                            {sliced_squares, piece})
            .wait();
      }
      CHECK(values_of(device_part) == values_of(part));
      CHECK(values_of(sliced_part) == values_of(part));
      CHECK(values_of(sliced_squares) == values_of(squares));
    }
  }
}

TEST_CASE("nccl: a window that is released makes room for a larger one", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl().duplicate("gather");
  const lt::PeerMemory memory = group.peer_memory(gpu());
  if (memory.windows == nullptr) return;
  const Size live = lt::memory_live(gpu()).of(lt::MemoryOwner::activations);
  for (const Size n : {Size{840} << 10, Size{840} << 12, Size{840}, Size{840} << 12}) {
    const Tensor expected = contribution(world().rank(), n, DType::f32);
    cpu().all_gather("cpu", expected, part_of(expected)).wait();
    const lt::memory::AllocationScope scope(memory.windows, gpu());
    const Tensor full = Tensor::empty({n}, DType::f32, gpu());
    const Size blocks = (full.bytes() + lt::kAllocationAlignment - 1) / lt::kAllocationAlignment;
    CHECK(lt::memory_live(gpu()).of(lt::MemoryOwner::activations) == live + blocks * lt::kAllocationAlignment);
    copy_bytes(full, contribution(world().rank(), n, DType::f32));
    for (int round = 0; round < 3; ++round) group.all_gather("in place", full, part_of(full)).wait();
    const lt::memory::AllocationScope plain(nullptr, gpu());
    CHECK(values_of(full) == values_of(expected));
  }
  CHECK(lt::memory_live(gpu()).of(lt::MemoryOwner::activations) == live);
}

TEST_CASE("nccl: where the device has no memory left, freed blocks make room for windows and other sizes",
          "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl().duplicate("gather");
  const lt::PeerMemory memory = group.peer_memory(gpu());
  lt::memory::trim(gpu());
  Size free = 0;
  for (const std::string& bytes : cpu().all_gather_bytes(std::to_string(free_bytes()))) {
    free = free == 0 ? std::stoll(bytes) : std::min<Size>(free, std::stoll(bytes));
  }
  const Size most = free / 10 * 6 / lt::kAllocationAlignment * lt::kAllocationAlignment;
  const auto take = [&](Size bytes) { static_cast<void>(Tensor::empty({bytes}, DType::u8, gpu())); };
  CHECK_NOTHROW(take(most));
  if (memory.windows != nullptr) {
    CHECK_NOTHROW(memory.windows->release(memory.windows->allocate(most, {}).index));
  }
  CHECK_NOTHROW(take(most));
  const Size requests = lt::memory::system_allocations(), larger = most + lt::kAllocationAlignment;
  const bool fits = free_bytes() >= larger;
  CHECK_NOTHROW(take(larger));
  CHECK(lt::memory::system_allocations() == requests + (fits ? 1 : 2));
  lt::memory::trim(gpu());
}

TEST_CASE("nccl: windows of different sizes are an error of all ranks", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl().duplicate("gather");
  const lt::PeerMemory memory = group.peer_memory(gpu());
  if (memory.windows == nullptr) return;
  const auto allocate = [&](Size bytes) { memory.windows->release(memory.windows->allocate(bytes, {}).index); };
  CHECK_THROWS_AS(allocate(lt::kAllocationAlignment * (1 + world().rank())), lt::InternalError);
  allocate(lt::kAllocationAlignment);  // windows still work
}

TEST_CASE("nccl: a window opens on all ranks or on none", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl().duplicate("gather");
  const lt::PeerMemory memory = group.peer_memory(gpu());
  if (memory.windows == nullptr) return;
  const auto allocate = [&] { memory.windows->release(memory.windows->allocate(lt::kAllocationAlignment, {}).index); };
  {
    const ArmedFault fault(out_of_memory(1));
    CHECK_THROWS_WITH(allocate(), Catch::Matchers::ContainsSubstring("bytes left for a window"));
  }
  allocate();  // windows still work
}
