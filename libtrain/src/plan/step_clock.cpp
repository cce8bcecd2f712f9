// Advances the clock by counted work, and by waits for collectives.
#include "plan/step_clock.h"

#include <algorithm>
#include <utility>

namespace lt::planner {
StepClock::StepClock(const DeviceUse& use) : use_(use) {
  if (use_.rates != nullptr && use_.rates->has_matmuls()) work_.times = use_.rates.get();
}

void StepClock::compute() {
  const profile::WorkCount now = work_;
  const double matmuls = matmuls_ms(now), attention = attention_ms(now), traffic = traffic_ms(now);
  const double overhead = (now.operations - counted_.operations) * use_.operation_us * 1e-3;
  counted_ = now;
  time_.matmuls_ms += matmuls, time_.attention_ms += attention, time_.traffic_ms += traffic;
  time_.overhead_ms += overhead;
  advance(matmuls + attention + traffic + overhead);
}

double StepClock::matmuls_ms(const profile::WorkCount& now) const {
  const double flops = now.matmul_flops - counted_.matmul_flops;
  const double quantized_ms = quantized_matmuls_ms(now.quantized_flops - counted_.quantized_flops);
  if (work_.times != nullptr) {
    const double timed_ms = now.timed_ms - counted_.timed_ms;
    return quantized_ms + timed_ms + use_.rates->matmuls_ms(flops - (now.timed_flops - counted_.timed_flops));
  }
  const DeviceModel& device = use_.device;
  return quantized_ms + flops * per_tera() / (is_low() ? device.matmul_tflops_bf16 : device.matmul_tflops_f32);
}

double StepClock::quantized_matmuls_ms(double flops) const {
  if (flops == 0) return 0;
  const auto measured = use_.rates != nullptr ? use_.rates->quantized_matmuls_ms(flops) : std::nullopt;
  return measured.value_or(flops * per_tera() / use_.device.matmul_tflops_fp8);
}

double StepClock::attention_ms(const profile::WorkCount& now) const {
  const double forward = now.attention_forward_flops - counted_.attention_forward_flops;
  const double backward = now.attention_backward_flops - counted_.attention_backward_flops;
  if (use_.rates != nullptr) {
    if (const auto ms = use_.rates->attention_ms(forward, backward)) return *ms;
  }
  const DeviceModel& device = use_.device;
  const std::size_t wide = use_.head_dim >= 128 ? 1 : 0;
  const double slower = is_low() ? 1 : device.matmul_tflops_bf16 / device.matmul_tflops_f32;
  return (forward / device.attention_forward_tflops[wide] + backward / device.attention_backward_tflops[wide]) *
         per_tera() * slower;
}

double StepClock::traffic_ms(const profile::WorkCount& now) const {
  const double bytes = now.traffic_bytes - counted_.traffic_bytes;
  if (use_.rates != nullptr) {
    const bool updates = activities_.back() == Activity::optimizer;
    const auto ms = updates ? use_.rates->optimizer_ms(bytes) : use_.rates->traffic_ms(bytes);
    if (ms) return *ms;
  }
  return bytes / use_.device.memory_gb_s * 1e-6 / use_.cores;
}

// A GPU multiplies f16 as fast as bf16. On CPUs this library uses no f16 instructions.
bool StepClock::is_low() const {
  return use_.dtype == DType::bf16 || (use_.dtype == DType::f16 && use_.device.dense_tflops_bf16 > 0);
}

void StepClock::advance(double ms) {
  if (schedule_ != nullptr && ms > 0) {
    if (schedule_->empty() || schedule_->back().kind != ScheduleEvent::Kind::work) schedule_->emplace_back();
    schedule_->back().work_ms += ms;
  }
  double left_ms = ms, lost_ms = 0;
  while (!in_flight_.empty()) {
    const auto [end_ms, loss] = in_flight_.front();
    const double beside_ms = std::max(0.0, end_ms - now_ms_), done_ms = beside_ms * (1 - loss);
    if (left_ms < done_ms) {
      lost_ms += left_ms * loss / (1 - loss), now_ms_ += left_ms / (1 - loss), left_ms = 0;
      break;
    }
    left_ms -= done_ms, lost_ms += beside_ms * loss, now_ms_ = std::max(now_ms_, end_ms);
    in_flight_.pop_front();
  }
  now_ms_ += left_ms;
  time_.contention_ms += lost_ms;
  time_.breakdown_ms[static_cast<std::size_t>(activities_.back())] += ms + lost_ms;
}

CollectiveCost StepClock::cost_of(Lane lane, const CollectiveShape& shape) {
  const auto [group, is_new] = groups_.try_emplace({shape.ranks, shape.stride});
  if (is_new) group->second = place_groups(use_.layout, shape.ranks, shape.stride);
  const GroupPlacement& placed = group->second;
  CollectiveCost cost = collective_cost(use_.device, placed, shape);
  if (use_.rates == nullptr || cost.over_network) return cost;
  if (const auto ms = use_.rates->collective_ms(lane, shape, use_.device.local_hop_us)) cost.ms = cost.local_ms = *ms;
  return cost;
}

std::size_t StepClock::begin(Span span, const TimePoint&) {
  compute();
  span.begin_us = now_ms_ * 1e3;
  std::optional<CollectiveCost> cost;
  if (span.lane != Lane::compute) {
    cost = cost_of(span.lane, span.collective);
    if (schedule_ != nullptr) {
      schedule_->push_back({ScheduleEvent::Kind::begin, 0, spans_.size(), span.lane, span.collective});
    }
    time_.collectives_ms += cost->ms;
    if (use_.device.overlaps) {
      link_free_ms_ = std::max(link_free_ms_, now_ms_) + cost->ms;
      span.end_us = link_free_ms_ * 1e3;
      const double transfer = std::min(1.0, cost->local_ms / cost->ms);
      const double loss_to_waiting = cost->over_network ? use_.loss_to_waiting : 0;  // inside a node streams wait
      in_flight_.push_back({link_free_ms_, transfer * use_.loss_to_transfer + (1 - transfer) * loss_to_waiting});
    }
  } else if (span.is_activity) {
    const auto name = std::find(kActivityNames.begin(), kActivityNames.end(), span.name);
    activities_.push_back(static_cast<Activity>(name - kActivityNames.begin()));
  }
  spans_.push_back(std::move(span));
  costs_.push_back(cost);
  return spans_.size() - 1;
}

void StepClock::end(std::size_t handle, const TimePoint&) {
  compute();
  Span& span = spans_[handle];
  if (costs_[handle]) {
    if (schedule_ != nullptr) schedule_->push_back({ScheduleEvent::Kind::wait, 0, handle});
    return wait_for(span, *costs_[handle]);
  }
  span.end_us = now_ms_ * 1e3;
  if (span.is_activity) activities_.pop_back();
}

void StepClock::wait_for(Span& span, const CollectiveCost& cost) {
  if (cost.ms == 0) return;  // of one rank; a difference of rounded times would look like waiting
  if (!use_.device.overlaps) span.end_us = (now_ms_ + cost.ms) * 1e3;
  const double wait_ms = std::max(0.0, span.end_us / 1e3 - now_ms_);
  (cost.over_network ? time_.exposed_network_ms : time_.exposed_local_ms) += wait_ms;
  time_.breakdown_ms[static_cast<std::size_t>(activities_.back())] += wait_ms;
  now_ms_ += wait_ms;
}

StepTime StepClock::take() {
  compute();
  if (schedule_ != nullptr) schedule_->push_back({ScheduleEvent::Kind::step_end});
  return std::exchange(time_, {});
}

}  // namespace lt::planner
