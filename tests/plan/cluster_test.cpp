// The simulator of a cluster: rings whose time is known, and a step of a hand-made schedule.
#include "plan/cluster_simulator.h"

#include <algorithm>
#include <cmath>

#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr double kTolerance = 1e-9;

// 10 and 1 GB/s, hops of 1 and 3 us.
planner::DeviceModel links(double hop_us = 1) {
  planner::DeviceModel device = planner::find_device_model("h100");
  device.local_gb_s = 10, device.network_gb_s = 1, device.collective_us = 5;
  device.local_hop_us = hop_us, device.network_hop_us = 3 * hop_us;
  return device;
}

}  // namespace

TEST_CASE("cluster: a ring inside a node sends without a gap", "[plan]") {
  // 30 MB from each of four ranks at 10 GB/s; the last message ends a hop later.
  const RingTime time = simulate_ring(links(), {4, 4, 30e6});
  CHECK(time.ms == Approx(3 + 0.001).epsilon(1e-6));
  CHECK(time.local_busy_ms == Approx(3).epsilon(kTolerance));
  CHECK(simulate_ring(links(), {1, 1, 0}).ms == 0);
}

TEST_CASE("cluster: the network limits rings between nodes, through all cards", "[plan]") {
  // Two nodes of two: each card sends its ring's 30 MB / 2 of 3 rounds at 1 GB/s, and the port the other ring's.
  const RingTime two = simulate_ring(links(0), {4, 2, 30e6});
  CHECK(two.ms >= 15);
  CHECK(two.ms < 16.2);  // the first messages of half the rounds wait for a slice
  CHECK(two.local_busy_ms == Approx(1.5).epsilon(kTolerance));
  // One rank on each of two nodes: all of it through one card.
  CHECK(simulate_ring(links(0), {2, 1, 30e6}).ms == Approx(30).epsilon(kTolerance));
}

TEST_CASE("cluster: small messages pay every hop, and hops hide behind transfers", "[plan]") {
  // The longest way has three hops, two of them between the nodes.
  CHECK(simulate_ring(links(), {4, 2, 3}).ms == Approx(2 * 0.003 + 0.001).epsilon(1e-3));
  const auto per_round = [](double bytes) { return simulate_ring(links(), {64, 1, 63 * bytes}).ms; };
  CHECK(per_round(1) == Approx(63 * 0.003).epsilon(1e-3));
  CHECK(per_round(30e3) == Approx(63 * (0.030 + 0.003)).epsilon(1e-3));  // one message a round: nothing to hide behind
  const double sliced = simulate_ring(links(), {64, 1, 63 * 4e6}).ms;
  CHECK(sliced < 63 * 4.003);
  CHECK(sliced == Approx(63 * 4).epsilon(0.01));
}

TEST_CASE("cluster: a step waits for collectives, and works more slowly beside them", "[plan]") {
  using Kind = planner::ScheduleEvent::Kind;
  const CollectiveShape gather{30'000'000, 4, 1};  // 3 ms, a hop and a start
  const auto step = [&](double work_ms) {
    planner::StepSchedule schedule;
    for (int i = 0; i < 2; ++i) {
      schedule.push_back({Kind::begin, 0, 0, Lane::gather, gather});
      schedule.push_back({Kind::work, work_ms});
      schedule.push_back({Kind::wait, 0, 0});
      schedule.push_back({Kind::step_end});
    }
    return ClusterSimulator(links(), {4, 4}).step(schedule);
  };
  const double collective_ms = 3.006;
  const SimulatedStep waiting = step(1);
  CHECK(waiting.total_ms == Approx(collective_ms).epsilon(1e-6));
  CHECK(waiting.collectives_ms == Approx(collective_ms).epsilon(1e-6));
  const double speed =
      1 - (3 / collective_ms * planner::kLossToTransfer + (1 - 3 / collective_ms) * planner::kLossToWaiting);
  CHECK(waiting.contention_ms == Approx(1 / speed - 1).epsilon(1e-6));
  CHECK(waiting.exposed_ms == Approx(collective_ms - 1 / speed).epsilon(1e-6));
  const SimulatedStep hidden = step(10);
  CHECK(hidden.exposed_ms == 0);
  CHECK(hidden.total_ms == Approx(10 + collective_ms * (1 - speed)).epsilon(1e-6));
}

TEST_CASE("cluster: the planner's collectives agree with the simulated rings", "[plan]") {
  const auto differs = [](const planner::DeviceModel& device, int ranks, int on_node, Size bytes) {
    const planner::GroupPlacement group{std::min(ranks, on_node), std::max(1, ranks / on_node)};
    const double planned_ms = planner::collective_cost(device, group, {bytes, ranks, 1}).ms;
    const RingTime ring = simulate_ring(device, {ranks, group.smallest_share, static_cast<double>(bytes)});
    return std::abs(planned_ms / (ring.ms + device.collective_us * 1e-3) - 1);
  };
  // The difference is of rings that wait for each other at the ports inside a node.
  constexpr double kWaitsOfRings = 0.05;
  for (const char* const name : {"h100", "a100"}) {
    const planner::DeviceModel& device = planner::find_device_model(name);
    for (const int on_node : {1, 4, 8}) {
      for (const int ranks : {8, 16, 64, 256, 1024}) {
        for (const Size bytes : {100'000, 3'000'000, 100'000'000, 500'000'000}) {
          CAPTURE(name, on_node, ranks, bytes);
          CHECK(differs(device, ranks, on_node, bytes) < kWaitsOfRings);
        }
      }
      CHECK(differs(device, 16384, on_node, 10'000'000) < kWaitsOfRings);
    }
  }
}
