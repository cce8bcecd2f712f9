// Simulates a step on a cluster event by event, to check the planner's formula for collectives and its clock.
#pragma once

#include <map>
#include <tuple>

#include "plan/device_model.h"
#include "plan/schedule.h"

namespace lt_test {

// A ring collective, message by message. Of a group's m ranks on a node, each begins one of m rings, which pass the
// node's ranks in turn and leave it through the network card of the last. Each ring carries a part of the data, in
// ranks - 1 rounds of one chunk a rank, cut into slices. A rank's port into its node serves the messages of all rings
// in the order in which they are ready, and its card those of one ring. A message occupies its port for its bytes and
// arrives a hop later; then the next rank may send it on.
//
// All nodes do the same, so one is simulated, whose messages from outside are its own to outside.
struct RingTime {
  double ms = 0;
  double local_busy_ms = 0;  // of a rank's port into its node
};
struct Ring {
  int ranks = 1, ranks_on_node = 1;  // of the group
  double bytes = 0;                  // sent by a rank
};
RingTime simulate_ring(const lt::planner::DeviceModel& device, const Ring& ring);

struct SimulatedStep {
  double total_ms = 0, exposed_ms = 0, contention_ms = 0, collectives_ms = 0;
};

// Plays a rank's schedule of two steps and returns the second. Collectives run in the order of the calls, one at a
// time, on the ring's links. Work beside one proceeds at a lower speed, by the constants of device_model.h, while the
// rank's port is busy and while it waits.
class ClusterSimulator {
 public:
  ClusterSimulator(const lt::planner::DeviceModel& device, const lt::planner::NodeLayout& layout)
      : device_(device), layout_(layout) {}
  SimulatedStep step(const lt::planner::StepSchedule& schedule);

 private:
  RingTime time_of(const lt::CollectiveShape& shape);

  lt::planner::DeviceModel device_;
  lt::planner::NodeLayout layout_;
  std::map<std::tuple<lt::Size, int, int, int>, RingTime> times_;  // by bytes, ranks, stride, rounds
};

}  // namespace lt_test
