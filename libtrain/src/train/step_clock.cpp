// Advances the clock by counted work and by waits for collectives.
#include "train/step_clock.h"

#include <algorithm>
#include <utility>

namespace lt {
void StepClock::compute() {
  const WorkCount now = work_;
  const DeviceModel& device = *use_.device;
  // A GPU multiplies f16 as fast as bf16. On CPUs this library uses no f16 instructions.
  const bool low = use_.dtype == DType::bf16 || (use_.dtype == DType::f16 && device.dense_tflops_bf16 > 0);
  const std::size_t wide = use_.head_dim >= 128 ? 1 : 0;
  const double per_tera = 1e-9 / use_.cores;  // ms for 1 FLOP at 1 TFLOP/s
  const double products = (now.product_flops - counted_.product_flops) * per_tera /
                          (low ? device.product_tflops_bf16 : device.product_tflops_f32);
  const double slower = low ? 1 : device.product_tflops_bf16 / device.product_tflops_f32;
  const double attention =
      ((now.attention_forward_flops - counted_.attention_forward_flops) / device.attention_forward_tflops[wide] +
       (now.attention_backward_flops - counted_.attention_backward_flops) / device.attention_backward_tflops[wide]) *
      per_tera * slower;
  const double traffic = (now.traffic_bytes - counted_.traffic_bytes) / device.memory_gb_s * 1e-6 / use_.cores;
  counted_ = now;
  time_.products_ms += products, time_.attention_ms += attention, time_.traffic_ms += traffic;
  const double ms = products + attention + traffic;
  time_.breakdown_ms[static_cast<std::size_t>(activities_.back())] += ms;
  now_ms_ += ms;
}

CollectiveCost StepClock::cost_of(const CollectiveShape& shape) {
  const auto [group, is_new] = groups_.try_emplace({shape.ranks, shape.stride});
  if (is_new) group->second = place_groups(use_.layout, shape.ranks, shape.stride);
  return collective_cost(*use_.device, group->second, shape);
}

std::size_t StepClock::begin(Span span, const TimePoint&) {
  compute();
  span.begin_us = now_ms_ * 1e3;
  std::optional<CollectiveCost> cost;
  if (span.lane != Lane::compute) {
    cost = cost_of(span.collective);
    time_.collectives_ms += cost->ms;
    if (use_.device->overlaps) {
      link_free_ms_ = std::max(link_free_ms_, now_ms_) + cost->ms;
      span.end_us = link_free_ms_ * 1e3;
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
  if (costs_[handle]) return wait_for(span, *costs_[handle]);
  span.end_us = now_ms_ * 1e3;
  if (span.is_activity) activities_.pop_back();
}

void StepClock::wait_for(Span& span, const CollectiveCost& cost) {
  if (!use_.device->overlaps) span.end_us = (now_ms_ + cost.ms) * 1e3;
  const double wait_ms = std::max(0.0, span.end_us / 1e3 - now_ms_);
  (cost.over_network ? time_.exposed_network_ms : time_.exposed_local_ms) += wait_ms;
  time_.breakdown_ms[static_cast<std::size_t>(activities_.back())] += wait_ms;
  now_ms_ += wait_ms;
}

StepTime StepClock::take() {
  compute();
  return std::exchange(time_, {});
}

}  // namespace lt
