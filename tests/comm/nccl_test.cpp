// Compares collectives on CUDA devices, one per rank, with collectives on the CPU for the same values. Skipped if there
// are fewer devices than ranks.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/call_log.h"
#include "comm/nccl.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "parallel/step_graph.h"

using namespace lt_test;
using lt::DType;
using lt::Group;
using lt::MemoryOwner;
using lt::Size;
using lt::Tensor;

namespace {

const std::vector<std::pair<DType, DType>> kTypes = {{DType::f32, DType::f32},  {DType::f32, DType::bf16},
                                                     {DType::f64, DType::f64},  {DType::bf16, DType::bf16},
                                                     {DType::bf16, DType::f32}, {DType::f64, DType::f32}};

}  // namespace

TEST_CASE("nccl: all_gather, apart and in place", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl();
  for (const Size n : sizes()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      INFO("n " << n << " dtype " << lt::dtype_name(dtype));
      const Tensor mine = contribution(world().rank(), n, dtype), expected = contribution(world().rank(), n, dtype);
      cpu().all_gather("cpu", expected, part_of(expected)).wait();
      const Tensor full = on_device(like(mine, 0)), part = on_device(part_of(mine)), in_place = on_device(mine);
      group.all_gather("apart", full, part).wait();
      CHECK(values_of(full) == values_of(expected));
      group.all_gather("in place", in_place, part_of(in_place)).wait();
      CHECK(values_of(in_place) == values_of(expected));
    }
  }
}

TEST_CASE("nccl: reduce_scatter and all_reduce", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl();
  for (const Size n : sizes()) {
    for (const auto& [dtype, wire] : kTypes) {
      INFO("n " << n << " dtype " << lt::dtype_name(dtype) << " wire " << lt::dtype_name(wire));
      const Tensor full = contribution(world().rank(), n, dtype), device_full = on_device(full);
      const Tensor part = like(part_of(full), 0.5), device_part = on_device(part);
      const auto check = [&](const Tensor& ours, const Tensor& theirs) { CHECK(values_of(ours) == values_of(theirs)); };
      cpu().reduce_scatter("cpu", part, full, wire).wait();
      group.reduce_scatter("apart", device_part, device_full, wire).wait();
      check(device_part, part);
      CHECK(values_of(device_full) == values_of(full));
      // The same calls on the same values give the same bits.
      const Tensor again = on_device(like(part, 0));
      group.reduce_scatter("again", again, device_full, wire).wait();
      CHECK(values_of(again) == values_of(device_part));

      copy_bytes(device_part, part);
      cpu().reduce_scatter("cpu", part, full, wire, {{part}}).wait();
      const Tensor squares = on_device(tensor_of({-1.0}, DType::f64));
      group.reduce_scatter("accumulate", device_part, device_full, wire, {{device_part}}, {squares}).wait();
      check(device_part, part);
      long double exact = 0;
      for (const long double x : values_of(part)) exact += x * x;
      CHECK(values_of(squares)[0] == Approx(static_cast<double>(exact)).epsilon(1e-14));

      const Tensor all = contribution(world().rank(), n, dtype), device_all = on_device(all);
      cpu().all_reduce("cpu", all, wire);
      group.all_reduce("all", device_all, wire);
      check(device_all, all);

      cpu().reduce_scatter("cpu", part_of(full), full, wire).wait();
      group.reduce_scatter("in place", part_of(device_full), device_full, wire).wait();
      check(device_full, full);
      cpu().reduce_scatter("cpu", part_of(full), full, wire, {{part_of(full)}}).wait();
      copy_bytes(device_full, contribution(world().rank(), n, dtype));
      group.reduce_scatter("in place", part_of(device_full), device_full, wire).wait();
      group.reduce_scatter("accumulate in place", part_of(device_full), device_full, wire, {{part_of(device_full)}})
          .wait();
      check(device_full, full);
    }
  }
}

TEST_CASE("nccl: in the log an all_reduce ends with its second half", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl();
  const Tensor full = on_device(contribution(world().rank(), 840, DType::f32));
  group.all_reduce("all", full, DType::f32);  // makes NCCL connect, which may block the host
  lt::Stream::compute(gpu()).synchronize();
  // Rank 0 calls all_reduce; the other ranks call its two halves separately.
  const bool makes_both = world().rank() == 0;
  const auto has_ended = [&] { return !makes_both || group.log().back().ended; };
  if (makes_both) {
    group.all_reduce("all", full, DType::f32);
  } else {
    group.reduce_scatter("first", part_of(full), full, DType::f32).wait();
    lt::Stream::compute(gpu()).synchronize();
  }
  cpu().barrier();
  CHECK(has_ended() == !makes_both);
  cpu().barrier();
  if (!makes_both) group.all_gather("second", full, part_of(full)).wait();
  lt::Stream::compute(gpu()).synchronize();
  CHECK(has_ended());
}

TEST_CASE("nccl: in the log a launch of a graph begins before its first call", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl();
  const Tensor full = on_device(contribution(world().rank(), 840, DType::f32));
  const lt::Stream stream = lt::Stream::compute(gpu());
  const auto gather = [&] { group.all_gather("in a graph", full, part_of(full)).wait(); };
  gather();  // makes NCCL connect, which no graph can capture
  stream.synchronize();
  const bool is_late = world().rank() == 0;
  const lt::parallel::StepGraph graph({}, stream, [&] {
    if (is_late) lt::device::cuda::sleep(stream.cuda(), std::chrono::seconds(2));
    gather();
    gather();
  });
  const auto begun = [&] {
    for (const lt::comm::GroupCalls& each : lt::comm::calls_of_groups(8, true)) {
      if (!each.calls.empty() && each.calls.back().name == "in a graph") return each.begun;
    }
    throw std::runtime_error("the group is not in the log");
  };
  const std::uint64_t before = begun(), expected = before + (is_late ? 0 : 1);
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    cpu().barrier();
    graph.launch(stream);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (begun() != expected && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    CHECK(begun() == expected);
    stream.synchronize();
    CHECK(begun() == before + 2);
  }
}

TEST_CASE("nccl: broadcast of any shape and dtype", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl();
  for (int root = 0; root < world().size(); ++root) {
    for (const Size n : sizes()) {
      const Tensor tensor = on_device(contribution(world().rank(), 2 * n, DType::bf16));
      group.broadcast("matrix", tensor.view({2, n}), root).wait();
      CHECK(values_of(tensor) == values_of(contribution(root, 2 * n, DType::bf16)));
    }
  }
  const Tensor bytes = Tensor::empty({5}, DType::u8);
  std::memset(bytes.data(), 'a' + world().rank(), 5);
  const Tensor sent = on_device(bytes);
  group.broadcast("bytes", sent, world().size() - 1).wait();
  copy_bytes(bytes, sent);
  CHECK(static_cast<const char*>(bytes.data())[4] == 'a' + world().size() - 1);
}

TEST_CASE("nccl: several collectives under way, in two groups", "[comm][nccl]") {
  if (skipped()) return;
  constexpr int kRounds = 8;
  const Group world_group = nccl();
  const Group gather = world_group.duplicate("gather"), reduce = world_group.duplicate("reduce");
  for (const Size n : {Size{301}, Size{840}}) {
    std::vector<Tensor> gathers, sums, parts, expected_gathers, expected_parts;
    std::vector<lt::Work> works;
    for (int k = 0; k < kRounds; ++k) {
      const Tensor values = contribution(world().rank() + k, n, DType::f64);
      expected_gathers.push_back(contribution(world().rank() + k, n, DType::f64));
      expected_parts.push_back(like(part_of(values), 0));
      cpu().all_gather("cpu", expected_gathers.back(), part_of(expected_gathers.back())).wait();
      cpu().reduce_scatter("cpu", expected_parts.back(), values, DType::f64).wait();
      gathers.push_back(on_device(values)), sums.push_back(on_device(values));
      parts.push_back(on_device(like(part_of(values), 0)));
    }
    for (std::size_t k = 0; k < kRounds; ++k) {
      works.push_back(gather.all_gather("g", gathers[k], part_of(gathers[k])));
      works.push_back(reduce.reduce_scatter("r", parts[k], sums[k], DType::f64));
    }
    CHECK(works[0].pending());
    // Odd ranks wait in reverse order.
    for (std::size_t i = 0; i < works.size(); ++i) works[world().rank() % 2 == 0 ? i : works.size() - 1 - i].wait();
    for (std::size_t k = 0; k < kRounds; ++k) {
      CHECK(values_of(gathers[k]) == values_of(expected_gathers[k]));
      CHECK(values_of(parts[k]) == values_of(expected_parts[k]));
    }
  }
}

TEST_CASE("nccl: a collective reads what was computed before it, and is over for what comes after wait()",
          "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl();
  const lt::Stream stream = lt::Stream::compute(gpu());
  const Size n = Size{1} << 20;
  const Tensor big = Tensor::empty({Size{64} << 20}, DType::u8, gpu());
  const Tensor other = Tensor::empty({Size{64} << 20}, DType::u8, gpu());
  const Tensor fresh = on_device(contribution(world().rank(), n, DType::f32));
  const Tensor expected = contribution(world().rank(), n, DType::f32);
  cpu().all_gather("cpu", expected, part_of(expected)).wait();
  for (int round = 0; round < 5; ++round) {
    const Tensor full = on_device(like(expected, -1)), seen = on_device(like(expected, -2));
    // Keeps the device busy for milliseconds before the values exist, longer on every second rank.
    for (int i = 0; i < 200 * (1 + (world().rank() + round) % 2); ++i) {
      lt::device::cuda::copy(other.data(), big.data(), big.bytes(), stream.cuda());
    }
    lt::device::cuda::copy(full.data(), fresh.data(), full.bytes(), stream.cuda());
    group.all_gather("late", full, part_of(full)).wait();
    lt::device::cuda::copy(seen.data(), full.data(), full.bytes(), stream.cuda());
    // The next owner of the memory may overwrite it.
    lt::device::cuda::copy(full.data(), big.data(), full.bytes(), stream.cuda());
    CHECK(values_of(seen) == values_of(expected));
  }
}

TEST_CASE("nccl: tensors on the CPU, bytes and barriers go the way of the CPU group", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl();
  const Tensor ours = contribution(world().rank(), 13, DType::f32),
               theirs = contribution(world().rank(), 13, DType::f32);
  group.all_reduce("ours", ours, DType::bf16);
  cpu().all_reduce("theirs", theirs, DType::bf16);
  CHECK(values_of(ours) == values_of(theirs));
  group.barrier();
  group.idle_barrier();
  CHECK(group.broadcast_bytes(std::to_string(world().rank()), 1) == "1");
  CHECK(group.all_gather_bytes("x") == std::vector<std::string>(static_cast<std::size_t>(world().size()), "x"));
  const Tensor other_device = Tensor::empty({4}, DType::f32, lt::kMeta);
  CHECK_THROWS_AS(group.broadcast("meta", other_device, 0), lt::UsageError);
  CHECK_THROWS_AS(cpu().broadcast("no NCCL", on_device(ours), 0), lt::UsageError);
}

TEST_CASE("nccl: split groups, of one rank too", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl();
  const auto color = [](int rank) { return rank / 2; };
  const Group pairs = group.split(color, "pairs"), cpu_pairs = cpu().split(color, "pairs");
  const Tensor values = contribution(world().rank(), 12, DType::f32), device_values = on_device(values);
  cpu_pairs.all_reduce("cpu", values, DType::f32);
  pairs.all_reduce("pairs", device_values, DType::f32);
  CHECK(values_of(device_values) == values_of(values));

  const Group alone = group.split(world().rank(), "alone");
  const Tensor mine = on_device(contribution(world().rank(), 12, DType::f32)), part = on_device(like(values, 1));
  alone.reduce_scatter("alone", part, mine, DType::bf16, {{part}}).wait();
  std::vector<double> sum;
  for (const double x : values_of(mine)) sum.push_back(static_cast<float>(stored(x, DType::bf16)) + 1.0F);
  CHECK(values_of(part) == sum);
  alone.all_gather("alone", part, mine).wait();
  CHECK(values_of(part) == values_of(mine));
}

TEST_CASE("nccl: a plan on meta counts the bytes and memory of the device", "[comm][nccl]") {
  if (skipped()) return;
  const Group group = nccl();
  const Group meta = group.on_meta(gpu());
  const auto staged = [](const Group& on, lt::Device where, Size n, DType dtype, DType wire, bool accumulate) {
    const Tensor full = Tensor::empty({n}, dtype, where);
    const Size before = lt::memory_live(where).of(MemoryOwner::communication);
    lt::take_comm_totals();
    const std::vector<Tensor> addends(accumulate ? 1 : 0, part_of(full));
    lt::Work work = on.reduce_scatter("r", part_of(full), full, wire, addends);
    const Size held = lt::memory_live(where).of(MemoryOwner::communication) - before;
    work.wait();
    return std::pair{held, lt::take_comm_totals().at(0).bytes};
  };
  for (const Size n : sizes()) {
    for (const auto& [dtype, wire] : kTypes) {
      for (const bool accumulate : {false, true}) {
        INFO("n " << n << " dtype " << lt::dtype_name(dtype) << " wire " << lt::dtype_name(wire));
        CHECK(staged(meta, lt::kMeta, n, dtype, wire, accumulate) == staged(group, gpu(), n, dtype, wire, accumulate));
      }
    }
  }
}

TEST_CASE("nccl: a collective that is given up ends its group, and nobody waits for it", "[comm][nccl]") {
  if (skipped()) return;
  const Tensor full = on_device(contribution(world().rank(), 840, DType::f32));
  {
    const Group lost = nccl().duplicate("lost");
    lost.broadcast("all answer", full, 1).wait();
    if (world().rank() == 0) {
      try {
        const lt::Work never = lost.broadcast("nobody answers", full, 1);
        throw lt::InternalError("test", "given up");
      } catch (const lt::InternalError&) {
      }
      CHECK_THROWS_AS(lost.broadcast("after", full, 0), lt::CommError);
    }
    cpu().barrier();
  }
  // Groups of another with_nccl() still work.
  const Group group = nccl();
  const Tensor values = contribution(world().rank(), 840, DType::f32), others = on_device(values);
  cpu().broadcast("cpu", values, 1).wait();
  group.broadcast("others", others, 1).wait();
  CHECK(values_of(others) == values_of(values));
}

TEST_CASE("nccl: a group may end on another thread", "[comm][nccl]") {
  if (skipped()) return;
  const Tensor full = on_device(contribution(world().rank(), 840, DType::f32));
  auto ended = std::make_unique<Group>(nccl().duplicate("ended"));
  ended->broadcast("ended", full, 1).wait();
  const Group group = nccl();
  std::thread([&] { ended.reset(); }).join();
  group.broadcast("others", full, 0).wait();
  lt::Stream::compute(gpu()).synchronize();
  CHECK(values_of(full).size() == 840);
}

TEST_CASE("nccl: abandoning a group ends what the device waits for", "[comm][nccl]") {
  if (skipped()) return;
  const Tensor full = on_device(contribution(world().rank(), 840, DType::f32));
  const Group lost = nccl().duplicate("lost");
  lost.broadcast("all answer", full, 1).wait();
  if (world().rank() == 0) {
    lost.broadcast("nobody answers", full, 1).wait();
    lost.abandon();
    lt::Stream::compute(gpu()).synchronize();
    CHECK_THROWS_AS(lost.broadcast("after", full, 0), lt::CommError);
  }
  cpu().barrier();
  lost.abandon();
  // On two ranks parts have one rank, without NCCL.
  if (world().size() > 2) CHECK_THROWS_AS(lost.split(world().rank() == 0 ? 0 : 1, "part"), lt::CommError);
}
