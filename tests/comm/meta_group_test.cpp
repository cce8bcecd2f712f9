// A meta group counts the same bytes, calls and memory as the MPI back end of the same rank and size.
#include <tuple>
#include <vector>

#include "comm/values.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "test_main/catch.h"
#include "test_main/world.h"

using lt::DType;
using lt::Group;
using lt::MemoryOwner;
using lt::Size;
using lt_test::staged;

namespace {

struct Count {
  std::vector<std::tuple<lt::CollectiveOp, Size, Size>> totals;      // op, bytes, calls
  std::vector<std::tuple<lt::CollectiveOp, std::string, Size>> log;  // op, name, bytes
  Size peak = 0, staged_while_pending = 0, left = 0;
  double busy_ms = 0;
};

// Makes the same calls on any group and device.
Count count_calls(const Group& group, lt::Device device, Size n, DType dtype, DType wire) {
  const Size part_size = Group::part_size(n, group.size(), group.rank());
  const lt::Tensor full = lt::Tensor::zeros({n}, dtype, device), part = lt::Tensor::zeros({part_size}, dtype, device);
  const Size before = lt::memory_live(device).of(MemoryOwner::communication);
  Count count;
  lt::take_comm_totals();
  lt::reset_memory_peak(device);
  {
    lt::Work gather = group.all_gather("weights", full, part);
    lt::Work first = group.reduce_scatter("first", part, full, wire);
    lt::Work second = group.reduce_scatter("second", part, full, dtype);
    count.staged_while_pending = lt::memory_live(device).of(MemoryOwner::communication) - before;
    gather.wait();
  }
  group.all_reduce("norm", full, wire);
  group.broadcast("start", full, group.size() - 1).wait();
  group.barrier();
  count.peak = lt::memory_peak_by_owner(device).of(MemoryOwner::communication) - before;
  count.left = lt::memory_live(device).of(MemoryOwner::communication) - before;
  for (const lt::CommTotal& total : lt::take_comm_totals()) {
    count.totals.emplace_back(total.op, total.bytes, total.calls);
    count.busy_ms += total.busy_ms;
  }
  for (const lt::CollectiveRecord& record : group.log()) count.log.emplace_back(record.op, record.name, record.bytes);
  return count;
}

Size in_blocks(Size bytes) {
  return (bytes + lt::kAllocationAlignment - 1) / lt::kAllocationAlignment * lt::kAllocationAlignment;
}

}  // namespace

TEST_CASE("meta group: the same bytes, calls, names and memory as the real one", "[comm]") {
  const int rank = lt_test::world().rank(), size = lt_test::world().size();
  for (const Size n : lt_test::kSizes) {
    for (const auto& [dtype, wire] : {std::pair{DType::f32, DType::f32}, std::pair{DType::f32, DType::bf16}}) {
      const Count real = count_calls(lt_test::world().group().duplicate("real"), lt::kCpu, n, dtype, wire);
      const Count meta = count_calls(Group::meta(rank, size), lt::kMeta, n, dtype, wire);
      CHECK(meta.totals == real.totals);
      CHECK(meta.log == real.log);
      CHECK(meta.peak == real.peak);
      CHECK(meta.staged_while_pending == real.staged_while_pending);
      CHECK(meta.left == 0);
      CHECK(real.left == 0);
      CHECK(meta.busy_ms == 0);
      const Size incoming = (size - 1) * Group::part_size(n, size, rank);
      const Size converted = dtype == wire ? 0 : n;
      CHECK(meta.staged_while_pending == in_blocks(incoming * lt::dtype_bytes(wire)) +
                                             in_blocks(converted * lt::dtype_bytes(wire)) +
                                             in_blocks(incoming * lt::dtype_bytes(dtype)));
    }
  }
}

TEST_CASE("meta group: any size, nothing moves", "[comm]") {
  const Group group = Group::meta(700, 1024);
  CHECK(group.rank() == 700);
  CHECK(group.size() == 1024);
  const lt::Tensor full = lt::Tensor::empty({Size{1} << 40}, DType::bf16, lt::kMeta);
  group.all_gather("huge", full, full.narrow(0, Size{700} << 30, Size{1} << 30)).wait();
  CHECK(group.log().back().bytes == Size{1023} * 2 * (Size{1} << 30));

  const lt::Tensor values = lt_test::contribution(3, 10, DType::f32);
  Group::meta(1, 2).all_reduce("nothing", values, DType::f32);
  CHECK(values.to_vector<double>() == lt_test::contribution(3, 10, DType::f32).to_vector<double>());

  CHECK(Group::meta(1, 3).all_gather_bytes("mine") == std::vector<std::string>(3, "mine"));
  CHECK(Group::meta(1, 3).broadcast_bytes("mine", 0) == "mine");
  CHECK_THROWS_AS(Group::meta(2, 2), lt::UsageError);
}

TEST_CASE("meta group: split by a function of the rank, by a color only where it is alone", "[comm]") {
  const Group group = Group::meta(7, 12);
  const Group shard = group.split([](int r) { return r / 4; }, "shard");
  CHECK(shard.rank() == 3);
  CHECK(shard.size() == 4);
  const Group replica = group.split([](int r) { return r % 4; }, "replica");
  CHECK(replica.rank() == 1);
  CHECK(replica.size() == 3);
  CHECK(group.duplicate("other").size() == 12);
  CHECK_THROWS_AS(group.split(0, "unknown"), lt::UsageError);
  CHECK(Group::meta(0, 1).split(4, "alone").size() == 1);
}

TEST_CASE("meta group: memory for CUDA, on one host and on several", "[comm]") {
  const Group hosts = Group::meta(1, 8, lt::DeviceType::cuda, 4), cuda = Group::meta(1, 4, lt::DeviceType::cuda, 4),
              cpu = Group::meta(1, 4, lt::DeviceType::cpu, 2);
  const Group one_a_host = hosts.split([](int r) { return r % 4; }, "across hosts");
  // Where hosts have several ranks each, 3 others of this host send parts for 2 hosts, and sums of 2 hosts are kept
  // beside those that arrive.
  for (const Group& group : {hosts, hosts.duplicate("other"), hosts.on_meta(lt::kMeta)}) {
    for (const bool accumulate : {false, true}) {
      CHECK(staged(group, 4096, DType::f32, DType::f32, accumulate) == (3 * 2 + 3) * 512 * 4);
      CHECK(group.log().back().bytes == 7 * 512 * 4);
      CHECK(staged(group, 4096, DType::f64, DType::f64, accumulate) == (3 * 2 + 3) * 512 * 8);
      CHECK(staged(group, 4096, DType::f32, DType::bf16, accumulate) == 4096 * 2 + 3 * 2 * 512 * 2 + 3 * 512 * 4);
      CHECK(group.log().back().bytes == 3 * 2 * 512 * 2 + 512 * 4);
      CHECK(staged(group, 4097, DType::f32, DType::f32, accumulate) == in_blocks(7 * 513 * 4));
    }
  }
  // A group whose hosts have one rank each, or different numbers of ranks, exchanges all values, as on one host. So do
  // groups of one split that lie differently on the hosts, because all must need the same memory.
  for (const int rank : {0, 4}) {
    const Group across = Group::meta(rank, 12, lt::DeviceType::cuda, 6).split([](int r) { return r / 4; }, "four each");
    CHECK(staged(across, 4096, DType::f32, DType::f32, true) == 3 * 1024 * 4);
  }
  CHECK(staged(one_a_host, 4096, DType::f32, DType::f32, true) == 2048 * 4);
  // On a GPU large parts arrive in slices of whole blocks of 4096 elements, as few as the limit permits: 10 blocks in
  // 4, 4 and 2, in 5 and 5, and one by one where the limit is one block or less. Groups made of the group are alike.
  constexpr Size kBlock = 3 * 4096 * 4;  // bytes that 3 others send
  for (const auto& [bytes, blocks] : {std::pair{4 * kBlock, 4},
                                      {4 * kBlock + kBlock / 2, 4},
                                      {9 * kBlock, 5},
                                      {kBlock + kBlock / 5, 1},
                                      {kBlock, 1},
                                      {Size{1}, 1},
                                      {10 * kBlock, 10}}) {
    const Group slices = cuda.duplicate_in_slices("slices", bytes);
    for (const Group& group : {slices, slices.duplicate("other"), slices.on_meta(lt::kMeta)}) {
      CHECK(staged(group, 4 * (10 << 12), DType::f32, DType::f32, true) == blocks * kBlock);
    }
    CHECK(staged(slices, 4 * (10 << 12) + 4, DType::f32, DType::f32, true) == in_blocks(3 * ((10 << 12) + 1) * 4));
    CHECK(staged(cpu.duplicate_in_slices("slices", bytes), 4 * (10 << 12), DType::f32, DType::f32, true) ==
          10 * kBlock);
  }
  // Sums that arrive from the other host count too.
  const Group slices = hosts.duplicate_in_slices("slices", (3 * 2 + 1) * 4 * (5 << 12));
  CHECK(staged(slices, 8 * (10 << 12), DType::f32, DType::f32, true) == (3 * 2 + 3) * 4 * (5 << 12));
  const Group uneven = Group::meta(1, 6, lt::DeviceType::cuda, 4);
  CHECK(staged(uneven, 6000, DType::f32, DType::f32, true) == in_blocks(5 * 1000 * 4));
  // On one host all values reach this rank, as on the CPU.
  for (const Group& group :
       {cuda, hosts.split([](int r) { return r / 4; }, "one host"), cuda.on_meta(lt::kMeta), cpu}) {
    CHECK(staged(group, 4096, DType::f32, DType::f32, true) == 3 * 1024 * 4);
  }
  // So do they with parts of different sizes, sums of bf16 and different dtypes.
  for (const Group& group : {cuda, cpu}) {
    for (const bool accumulate : {false, true}) {
      CHECK(staged(group, 4097, DType::f32, DType::f32, accumulate) == in_blocks(3 * 1025 * 4));
      CHECK(staged(group, 4096, DType::bf16, DType::bf16, accumulate) == 3 * 1024 * 2);
      CHECK(staged(group, 4096, DType::f32, DType::bf16, accumulate) == 4096 * 2 + 3 * 1024 * 2);
    }
  }
  // A real group plans for the named device. A meta group plans for the device that it was made for.
  const Group ranks = lt_test::world().group();
  const Size size = ranks.size();
  CHECK(staged(ranks.on_meta({lt::DeviceType::cuda, 1}), 1024 * size, DType::f32, DType::f32, true) ==
        (size - 1) * 4096);
  CHECK(staged(ranks.on_meta(lt::kCpu), 1024 * size, DType::f32, DType::f32, true) == (size - 1) * 4096);
  CHECK(staged(cpu.on_meta({lt::DeviceType::cuda, 1}), 4096, DType::f32, DType::f32, true) == 3 * 4096);
}
