// Split and duplicated groups, their logs and totals, and failures that all ranks share.
#include <chrono>
#include <ctime>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "comm/value_exchange.h"
#include "comm/values.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/world.h"

using namespace lt_test;
using lt::CollectiveOp;
using lt::DType;
using lt::Group;
using lt::Size;

TEST_CASE("values: another size than this rank's is a defect, which a restart would not cure", "[comm]") {
  CHECK(lt::comm::value_of_rank<int>(lt::comm::bytes_of(7)) == 7);
  CHECK_THROWS_AS(lt::comm::value_of_rank<int>("7"), lt::InternalError);
}

namespace {

const Group& group() { return world().group(); }

// The sum of the world ranks of a group's members.
double sum_of_ranks(const Group& members) {
  const lt::Tensor one = lt::Tensor::from(std::vector<double>{static_cast<double>(world().rank())}, {1});
  members.all_reduce("ranks", one, DType::f64);
  return one.item();
}

// The error that collectively(group(), body) throws on this rank.
lt::Error failure_of(const std::function<void()>& body) {
  try {
    lt::collectively(group(), body);
  } catch (const lt::Error& error) {
    return error;
  }
  return lt::Error(lt::ExitCode::ok, "", "nothing was thrown");
}

}  // namespace

TEST_CASE("split: ranks of the same color, in their order", "[comm]") {
  const int size = world().size(), rank = world().rank();
  const Group parity = group().split(rank % 2, "parity");
  const Group same = group().split([](int r) { return r % 2; }, "parity by function");
  for (const Group& members : {parity, same}) {
    CHECK(members.rank() == rank / 2);
    CHECK(members.size() == (size + 1 - rank % 2) / 2);
    double expected = 0;
    for (int r = rank % 2; r < size; r += 2) expected += r;
    CHECK(sum_of_ranks(members) == expected);
  }
  const Group alone = group().split(-5 - rank, "any integer is a color");
  CHECK(alone.size() == 1);
  CHECK(sum_of_ranks(alone) == rank);
}

TEST_CASE("duplicate: all ranks, and collectives that do not meet those of the original", "[comm]") {
  const Group other = group().duplicate("other");
  CHECK(other.rank() == world().rank());
  CHECK(other.size() == world().size());
  const int size = world().size();
  const lt::Tensor a = lt::Tensor::zeros({size}, DType::f64), b = lt::Tensor::zeros({size}, DType::f64);
  a.data<double>()[world().rank()] = 1 + world().rank();
  b.data<double>()[world().rank()] = 100 + world().rank();
  // The two groups are called in different orders on different ranks.
  lt::Work work_a, work_b;
  const auto start_a = [&] { work_a = group().all_gather("a", a, a.narrow(0, world().rank(), 1)); };
  const auto start_b = [&] { work_b = other.all_gather("b", b, b.narrow(0, world().rank(), 1)); };
  if (world().rank() % 2 == 0) {
    start_a(), start_b();
  } else {
    start_b(), start_a();
  }
  work_a.wait();
  work_b.wait();
  for (int r = 0; r < size; ++r) {
    CHECK(a.to_vector<double>()[static_cast<std::size_t>(r)] == 1 + r);
    CHECK(b.to_vector<double>()[static_cast<std::size_t>(r)] == 100 + r);
  }
}

TEST_CASE("log and totals: name, sequence and the bytes that this rank sends", "[comm]") {
  const Group fresh = group().duplicate("fresh");
  const Size size = world().size(), n = 10 * size - 1, part = Group::part_size(n, world().size(), world().rank());
  const lt::Tensor full = lt::Tensor::zeros({n}, DType::f32), mine = lt::Tensor::zeros({part}, DType::f32);
  lt::take_comm_totals();
  fresh.all_gather("weights", full, mine).wait();
  fresh.reduce_scatter("gradients", mine, full, DType::bf16).wait();
  fresh.reduce_scatter("gradients", mine, full, DType::f32).wait();
  fresh.all_reduce("norm", full, DType::f32);
  fresh.broadcast("start", full, 0).wait();
  fresh.barrier();

  const Size gather = 4 * part * (size - 1), reduce = n - part;
  const Size from_root = world().rank() == 0 ? 4 * n * (size - 1) : 0;
  const std::vector<std::tuple<CollectiveOp, std::string, Size>> expected = {
      {CollectiveOp::all_gather, "weights", gather},           {CollectiveOp::reduce_scatter, "gradients", 2 * reduce},
      {CollectiveOp::reduce_scatter, "gradients", 4 * reduce}, {CollectiveOp::all_reduce, "norm", 4 * reduce + gather},
      {CollectiveOp::broadcast, "start", from_root},           {CollectiveOp::barrier, "barrier", 0}};
  const std::vector<lt::CollectiveRecord> log = fresh.log();
  CHECK(log.size() == expected.size());
  for (std::size_t i = 0; i < std::min(log.size(), expected.size()); ++i) {
    CHECK(log[i].sequence == i);
    CHECK(std::tuple(log[i].op, log[i].name, log[i].bytes) == expected[i]);
  }

  const std::vector<lt::CommTotal> totals = lt::take_comm_totals();
  CHECK(totals.size() == 5);
  for (const lt::CommTotal& total : totals) {
    Size bytes = 0, calls = 0;
    for (const auto& [op, name, sent] : expected) {
      if (op == total.op) bytes += sent, ++calls;
    }
    CHECK(total.bytes == bytes);
    CHECK(total.calls == calls);
    CHECK(total.exposed_ms <= total.busy_ms);
    if (size > 1) CHECK(total.busy_ms > 0);
  }
  CHECK(lt::take_comm_totals().empty());
}

TEST_CASE("idle_barrier: nobody leaves before the last has come, and who waits leaves its core to the others",
          "[comm]") {
  using Clock = std::chrono::steady_clock;  // one clock for all processes of a host
  const auto cpu_seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const bool works = world().rank() == 0;
  group().barrier();
  const double cpu_start = cpu_seconds();
  while (works && cpu_seconds() < cpu_start + 0.1) {
  }
  const auto came = Clock::now();
  group().idle_barrier();
  const auto left = Clock::now();
  if (!works) CHECK(cpu_seconds() - cpu_start < 0.05);
  for (const std::string& text : group().all_gather_bytes(std::to_string(came.time_since_epoch().count()))) {
    CHECK(left.time_since_epoch().count() >= std::stoll(text));
  }
}

TEST_CASE("log: the last kLogLength collectives are kept", "[comm]") {
  const Group fresh = group().duplicate("fresh");
  constexpr int kCalls = Group::kLogLength + 44;
  const lt::Tensor tensor = lt::Tensor::zeros({1}, DType::f32);
  for (int i = 0; i < kCalls; ++i) fresh.broadcast("call " + std::to_string(i), tensor, 0).wait();
  const std::vector<lt::CollectiveRecord> log = fresh.log();
  CHECK(log.size() == static_cast<std::size_t>(Group::kLogLength));
  for (std::size_t i = 0; i < log.size(); ++i) {
    CHECK(log[i].sequence == i + 44);
    CHECK(log[i].name == "call " + std::to_string(i + 44));
  }
}

TEST_CASE("collectively: one rank's error is thrown on all, the lowest rank's first", "[comm]") {
  const int last = world().size() - 1, first = std::min(1, last);
  const lt::Error one = failure_of([&] {
    if (world().rank() == last)
      throw lt::DataError("checkpoint", "rank-1.h5: expected 4, got 3 \n\"bytes\"", "verify it");
  });
  CHECK(one.code() == lt::ExitCode::data);
  CHECK(one.component() == "checkpoint");
  CHECK(std::string(one.what()) == "rank-1.h5: expected 4, got 3 \n\"bytes\"");
  CHECK(one.hint() == "verify it");
  CHECK(one.shared());
  CHECK(one.rank() == last);

  const lt::Error several = failure_of([&] {
    if (world().rank() >= first) throw lt::UsageError("config", "rank " + std::to_string(world().rank()));
  });
  CHECK(std::string(several.what()) == "rank " + std::to_string(first));
  CHECK(several.rank() == first);
  CHECK(several.hint().empty());

  int ran = 0;
  CHECK_NOTHROW(lt::collectively(group(), [&] { ++ran; }));
  CHECK(ran == 1);
}

TEST_CASE("collectively: the type, other exceptions, and errors that were shared before", "[comm]") {
  const int last = world().size() - 1;
  const auto thrown = [&](auto error) {
    return [error, last] {
      if (world().rank() == last) throw error;
    };
  };
  CHECK_THROWS_AS(lt::collectively(group(), thrown(lt::UsageError("config", "x"))), lt::UsageError);
  CHECK_THROWS_AS(lt::collectively(group(), thrown(lt::DataError("data", "x"))), lt::DataError);
  CHECK(failure_of(thrown(lt::NonFiniteError("x"))).code() == lt::ExitCode::non_finite);
  CHECK(failure_of(thrown(lt::Error(lt::ExitCode::restart, "train", "x"))).code() == lt::ExitCode::restart);
  const lt::Error other = failure_of(thrown(std::runtime_error("odd")));
  CHECK(other.code() == lt::ExitCode::internal);
  CHECK(std::string(other.what()) == "odd");
  CHECK(failure_of(thrown(7)).code() == lt::ExitCode::internal);
  const auto refused = std::make_error_code(std::errc::permission_denied);
  const lt::Error files = failure_of(thrown(std::filesystem::filesystem_error("status", "some/folder", refused)));
  CHECK(files.code() == lt::ExitCode::data);
  CHECK(std::string(files.what()) == "some/folder: Permission denied");
  CHECK(std::string(failure_of(thrown(std::bad_alloc())).what()) == "out of memory");

  const lt::Error nested = failure_of([&] { lt::collectively(group(), thrown(lt::DataError("data", "inner"))); });
  CHECK(nested.rank() == last);
  CHECK(nested.shared());
}

TEST_CASE("collectively: a part of the ranks shares its error, the run learns of it from the world", "[comm]") {
  const int last = world().size() - 1;
  const Group pairs = group().split([](int r) { return r / 2; }, "pairs");
  const lt::Error error = failure_of([&] {
    lt::collectively(pairs, [&] {
      if (world().rank() == last) throw lt::DataError("data", "from a pair");
    });
  });
  CHECK(std::string(error.what()) == "from a pair");
  CHECK(error.shared());
  // Only a pair that is the whole run marks the error as shared. Otherwise its lowest rank reports the error.
  CHECK(error.rank() == (pairs.size() == world().size() ? last : last / 2 * 2));
}

TEST_CASE("with_nccl: without NCCL the error names what is missing", "[comm]") {
  const auto error_of = [](const Group& ranks, lt::Device device) {
    try {
      ranks.with_nccl(device);
    } catch (const lt::UsageError& error) {
      return std::string(error.what()) + "; " + error.hint();
    }
    return std::string("nothing was thrown");
  };
  const std::string error = error_of(group(), {lt::DeviceType::cuda, 4096});
  CHECK(error.find("cuda:4096") != std::string::npos);
  CHECK(error.find("choose cpu") != std::string::npos);
  CHECK(error_of(group(), lt::kCpu) != "nothing was thrown");
  CHECK(error_of(Group::meta(0, 2), {lt::DeviceType::cuda, 0}) != "nothing was thrown");
}
