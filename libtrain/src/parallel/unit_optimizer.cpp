// Splits a unit into stretches with equal states, and these into cuts with one optimizer each, and updates the cuts.
#include "parallel/unit_optimizer.h"

#include <algorithm>

#include "libtrain/memory/memory.h"
#include "optim/row.h"
#include "parallel/group_member.h"
#include "profile/work_count.h"

namespace lt::parallel {
namespace {

// The largest share of elements [begin, end) that one part has, if the unit is cut into parts of `size`.
Size largest_share(Size begin, Size end, Size size) {
  Size largest = 0;
  if (begin == end) return largest;  // then a part may have no elements
  for (Size part = begin / size * size; part < end; part += size) {
    largest = std::max(largest, std::min(end, part + size) - std::max(begin, part));
  }
  return largest;
}

}  // namespace

UnitOptimizer::UnitOptimizer(const UnitLayout& layout, const OptimizerGroups& groups, UnitPart part, DType weights,
                             Device device, std::uint64_t seed)
    : groups_(groups), part_(part), decayed_(layout.decayed()) {
  // Padding belongs to the parameter before it.
  const std::vector<UnitLayout::Range>& ranges = layout.ranges();
  std::size_t last_group = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::size_t group = optim::group_of(groups, member_of(ranges[i]));
    const Size begin = i == 0 ? 0 : ranges[i].begin,
               end = i + 1 < ranges.size() ? ranges[i + 1].begin : layout.padded();
    const std::vector<StateKind>& kinds = groups.groups[group].optimizer.states;
    const bool same_states = !stretches_.empty() && stretches_.back().kinds == kinds;
    if (!same_states) stretches_.push_back({begin, end, kinds, {}});
    stretches_.back().end = end;
    const bool rounds = weights == DType::bf16 || optim::rounds_stochastically(groups.groups[group].optimizer);
    const Size from = std::max(begin, part.begin), to = std::min(end, part.end());
    if (from >= to) continue;
    const bool goes_on = !cuts_.empty() && last_group == group && same_states &&
                         (!rounds || cuts_.back().segments.count < RoundingSegments::kMaxSegments);
    if (!goes_on) cuts_.push_back({from, to, group, stretches_.size() - 1, {}});
    last_group = group;
    Cut& cut = cuts_.back();
    cut.end = to;
    if (rounds) {
      cut.segments.segments[cut.segments.count++] = {from - cut.begin, from - ranges[i].begin,
                                                     rounding_key(seed, ranges[i].name)};
    }
  }
  const MemoryScope owner(MemoryOwner::optimizer);
  for (Stretch& stretch : stretches_) {
    const Size elements = largest_share(stretch.begin, stretch.end, part.size);
    for (const StateKind& kind : stretch.kinds) {
      stretch.states.push_back(Tensor::zeros({elements}, kind.dtype, device));
    }
  }
}

Tensor UnitOptimizer::part_of(const Stretch& stretch, std::size_t state, Size begin, Size end) const {
  return stretch.states[state].narrow(0, begin - std::max(stretch.begin, part_.begin), end - begin);
}

void UnitOptimizer::run(const Cut& cut, const Arrays& arrays, const StepNumbers* numbers,
                        const std::function<void(const UpdateRange& range)>& call) const {
  const Stretch& stretch = stretches_[cut.stretch];
  const Size size = cut.end - cut.begin;
  std::vector<Tensor> states;
  for (std::size_t i = 0; i < stretch.states.size(); ++i) states.push_back(part_of(stretch, i, cut.begin, cut.end));
  Size element = 0;  // bytes of traffic for each element
  const auto part = [&](const Tensor& held, Size times) {
    if (!held.defined()) return Tensor();
    element += times * dtype_bytes(held.dtype());
    return held.narrow(0, cut.begin - part_.begin, size);
  };
  // Weights are read and written, the gradient is read for the norm and for the update, a direction is read or written.
  UpdateRange range;
  range.weights = part(arrays.weights, 2), range.gradient = part(arrays.gradient, 2), range.copy = part(arrays.copy, 1);
  range.states = states;
  range.direction = part(arrays.direction, 1);
  static const StepNumbers no_update{.skip = 1};  // on meta, for an optimizer that reads them before it returns early
  range.numbers = numbers == nullptr ? &no_update : numbers + cut.group;
  range.decayed = std::clamp<Size>(decayed_ - cut.begin, 0, size);
  if (cut.segments.count > 0) range.rounding = &cut.segments;
  if (arrays.gradient.defined()) {  // states change: they are read and written
    for (const StateKind& kind : stretch.kinds) element += 2 * dtype_bytes(kind.dtype);
  }
  profile::count_traffic(size * element);
  call(range);
}

void UnitOptimizer::update(const Tensor& weights, const Tensor& gradient, const Tensor& copy,
                           const StepNumbers* numbers) const {
  for (const Cut& cut : cuts_) {
    if (optimizer_of(cut).update) run(cut, {weights, gradient, {}, copy}, numbers, optimizer_of(cut).update);
  }
}

void UnitOptimizer::begin_matrices(const Tensor& gradient, const Tensor& directions, const StepNumbers* numbers) const {
  for (const Cut& cut : cuts_) {
    const auto& matrices = optimizer_of(cut).matrices;
    if (matrices) run(cut, {{}, gradient, directions, {}}, numbers, matrices->begin);
  }
}

void UnitOptimizer::end_matrices(const Tensor& weights, const Tensor& changes, const Tensor& copy,
                                 const StepNumbers* numbers) const {
  for (const Cut& cut : cuts_) {
    const auto& matrices = optimizer_of(cut).matrices;
    if (matrices) run(cut, {weights, {}, changes, copy}, numbers, matrices->end);
  }
}

void UnitOptimizer::for_each_state(Size begin, Size end,
                                   const std::function<void(const std::string&, const Tensor&)>& visit) const {
  const auto holds = [&](const Stretch& stretch) { return stretch.begin <= begin && end <= stretch.end; };
  const Stretch& stretch = *std::find_if(stretches_.begin(), stretches_.end(), holds);
  for (std::size_t i = 0; i < stretch.states.size(); ++i) {
    visit(stretch.kinds[i].name, part_of(stretch, i, begin, end));
  }
}

}  // namespace lt::parallel
