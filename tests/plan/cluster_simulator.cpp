// Implements the simulator: the messages of a ring, and the events of a step.
#include "plan/cluster_simulator.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>
#include <vector>

namespace lt_test {
namespace {

// A message that is ready to leave its rank.
struct Message {
  double ready_us;
  int rank, ring;  // on the node
  int round, slice;
  bool operator>(const Message& other) const { return ready_us > other.ready_us; }
};

}  // namespace

RingTime simulate_ring(const lt::planner::DeviceModel& device, const Ring& ring) {
  if (ring.ranks < 2) return {};
  const int m = ring.ranks_on_node, rounds = ring.ranks - 1;
  const bool one_node = m == ring.ranks;
  const double chunk = ring.bytes / rounds / m;  // of one ring
  const int slices = std::max(1, static_cast<int>(std::ceil(chunk / lt::planner::kSliceBytes)));
  const double bytes = chunk / slices;
  const double local_us = bytes / device.local_gb_s * 1e-3, network_us = bytes / device.network_gb_s * 1e-3;
  std::vector<double> port_us(static_cast<std::size_t>(m)), card_us(port_us);  // free from
  std::priority_queue<Message, std::vector<Message>, std::greater<>> messages;
  for (int rank = 0; rank < m; ++rank) {
    for (int k = 0; k < m; ++k) {
      for (int slice = 0; slice < slices; ++slice) messages.push({0, rank, k, 0, slice});
    }
  }
  double end_us = 0, busy_us = 0;
  while (!messages.empty()) {
    const Message message = messages.top();
    messages.pop();
    const bool leaves = !one_node && (message.rank + 1) % m == message.ring;  // the last of this ring on its node
    auto& free_us = (leaves ? card_us : port_us)[static_cast<std::size_t>(message.rank)];
    const double begin_us = std::max(message.ready_us, free_us), work_us = leaves ? network_us : local_us;
    free_us = begin_us + work_us;
    if (!leaves) busy_us += work_us / m;
    const double arrival_us = free_us + (leaves ? device.network_hop_us : device.local_hop_us);
    end_us = std::max(end_us, arrival_us);
    if (message.round + 1 < rounds) {
      messages.push({arrival_us, (message.rank + 1) % m, message.ring, message.round + 1, message.slice});
    }
  }
  return {end_us * 1e-3, busy_us * 1e-3};
}

RingTime ClusterSimulator::time_of(const CollectiveShape& shape) {
  const auto [entry, is_new] = times_.try_emplace({shape.bytes, shape.ranks, shape.stride, shape.rounds});
  if (is_new) {
    const lt::planner::GroupPlacement placed = lt::planner::place_groups(layout_, shape.ranks, shape.stride);
    const Ring ring{shape.ranks, placed.smallest_share, static_cast<double>(shape.bytes) / shape.rounds};
    const RingTime once = simulate_ring(device_, ring);
    entry->second = {shape.rounds * (once.ms + device_.collective_us * 1e-3), shape.rounds * once.local_busy_ms};
    if (shape.ranks < 2) entry->second = {};
  }
  return entry->second;
}

SimulatedStep ClusterSimulator::step(const lt::planner::StepSchedule& schedule) {
  struct Flight {
    double end_ms, loss;  // loss: of the speed of work beside it
  };
  std::deque<Flight> flights;
  std::map<std::size_t, double> ends_ms;  // by the number of the collective
  double now_ms = 0, free_ms = 0, begin_ms = 0;
  SimulatedStep step;
  for (const lt::planner::ScheduleEvent& event : schedule) {
    if (event.kind == lt::planner::ScheduleEvent::Kind::begin) {
      const RingTime time = time_of(event.shape);
      free_ms = std::max(free_ms, now_ms) + time.ms;
      ends_ms[event.collective] = free_ms;
      step.collectives_ms += time.ms;
      const double busy = time.ms > 0 ? std::min(1.0, time.local_busy_ms / time.ms) : 0;
      flights.push_back({free_ms, busy * lt::planner::kLossToTransfer + (1 - busy) * lt::planner::kLossToWaiting});
    } else if (event.kind == lt::planner::ScheduleEvent::Kind::wait) {
      const auto found = ends_ms.find(event.collective);
      const double until_ms = found == ends_ms.end() ? now_ms : std::max(now_ms, found->second);
      step.exposed_ms += until_ms - now_ms;
      now_ms = until_ms;
    } else if (event.kind == lt::planner::ScheduleEvent::Kind::step_end) {
      step.total_ms = now_ms - begin_ms;
      if (&event != &schedule.back()) step = {}, begin_ms = now_ms;
    } else {
      double left_ms = event.work_ms;
      const double from_ms = now_ms;
      while (left_ms > 0) {
        while (!flights.empty() && flights.front().end_ms <= now_ms) flights.pop_front();
        const double speed = flights.empty() ? 1 : 1 - flights.front().loss;
        const double until_ms = flights.empty() ? HUGE_VAL : flights.front().end_ms;
        const double done_ms = std::min(left_ms, (until_ms - now_ms) * speed);
        left_ms -= done_ms;
        now_ms = done_ms < left_ms + done_ms ? until_ms : now_ms + done_ms / speed;
      }
      step.contention_ms += now_ms - from_ms - event.work_ms;
    }
  }
  return step;
}

}  // namespace lt_test
