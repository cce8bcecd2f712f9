// Groups for a background thread. They work at the same time as other collectives, use no processor time while they
// wait, and are not included in totals.
#include <chrono>
#include <ctime>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "libtrain/comm/group.h"
#include "test_main/catch.h"
#include "test_main/world.h"

using namespace lt_test;
using lt::DType;
using lt::Group;

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

double cpu_seconds_of_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void compute_for(double cpu_seconds) {
  const double begin = cpu_seconds_of_thread();
  while (cpu_seconds_of_thread() < begin + cpu_seconds) {
  }
}

struct Waited {
  double cpu_s = 0, wall_s = 0;
  int wrong = 0;
};

// Makes every kind of exchange. The first one waits for the late rank.
Waited exchange_all(const Group& group, std::future<void> may_begin) {
  may_begin.wait();
  const double cpu_begin = cpu_seconds_of_thread();
  const Clock::time_point begin = Clock::now();
  Waited waited;
  group.barrier();
  waited.cpu_s = cpu_seconds_of_thread() - cpu_begin, waited.wall_s = seconds(Clock::now() - begin);
  for (int i = 0; i < 20; ++i) {
    const auto text = [&](int rank) { return std::to_string(i) + " of " + std::to_string(rank); };
    const std::vector<std::string> all = group.all_gather_bytes(text(group.rank()));
    for (int r = 0; r < group.size(); ++r) waited.wrong += all[static_cast<std::size_t>(r)] != text(r);
    const int root = i % group.size();
    waited.wrong += group.broadcast_bytes(group.rank() == root ? text(root) : "", root) != text(root);
  }
  return waited;
}

}  // namespace

TEST_CASE("patient: a thread waits for a late rank asleep while the main threads gather", "[comm]") {
  const int size = world().size(), rank = world().rank();
  const Group patient = world().group().duplicate_patient("patient");
  CHECK(patient.rank() == rank);
  CHECK(patient.size() == size);
  const bool is_late = rank == size - 1;
  std::promise<void> may_begin;
  if (!is_late) may_begin.set_value();
  std::future<Waited> background =
      std::async(std::launch::async, [&] { return exchange_all(patient, may_begin.get_future()); });
  // Gathers for a third of a second, independently of the background thread.
  const lt::Tensor full = lt::Tensor::zeros({size}, DType::f64);
  for (int i = 0; i < 150; ++i) {
    compute_for(2e-3);
    full.data<double>()[rank] = i * 10 + rank;
    world().group().all_gather("full", full, full.narrow(0, rank, 1)).wait();
    for (int r = 0; r < size; ++r) CHECK(full.to_vector<double>()[static_cast<std::size_t>(r)] == i * 10 + r);
  }
  if (is_late) may_begin.set_value();
  const Waited waited = background.get();
  CHECK(waited.wrong == 0);
  if (!is_late && size > 1) {
    CHECK(waited.wall_s > 0.2);
    CHECK(waited.cpu_s < waited.wall_s / 5);
  }
}

TEST_CASE("patient: no totals and no waiting times count it, nor groups that are split from it", "[comm]") {
  const Group patient = world().group().duplicate_patient("patient"), twin = patient.duplicate("twin");
  const lt::Tensor one = lt::Tensor::zeros({1}, DType::f32);
  world().group().barrier();
  lt::take_comm_totals();
  lt::take_waiting_ms();
  for (const Group& group : {patient, twin}) {
    group.barrier();
    group.idle_barrier();
    group.all_gather_bytes("x");
    group.broadcast_bytes("x", 0);
    group.broadcast("one", one, 0).wait();
    group.all_reduce("one", one, DType::f32);
  }
  CHECK(lt::take_comm_totals().empty());
  CHECK(lt::take_waiting_ms() == 0);
  CHECK(patient.log().size() == 7);  // a watchdog sees all of them, and the one that made `twin`
  world().group().barrier();
  CHECK(lt::take_comm_totals().size() == 1);
}
