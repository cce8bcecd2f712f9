// Finds the partial sums to which a leaf is added.
#include "parallel/partial_sums.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "parallel/flat_buffer.h"

namespace lt::parallel {

PartialSums::PartialSums(Size micro_steps, Size elements, Device device, bool shares_sum)
    : partial_(static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(micro_steps - 1)))),
      micro_steps_(micro_steps) {
  for (std::size_t i = 0; i < partial_.size(); ++i) {
    const bool is_largest = i + 1 == partial_.size();
    if (!is_largest || !shares_sum) partial_[i] = flat_zeros(elements, DType::f32, device, MemoryOwner::gradients);
  }
}

void PartialSums::end_in(const Tensor& sum) {
  sum_ = sum;
  if (!partial_.empty() && !partial_.back().defined()) partial_.back() = sum;
}

PartialSums::Place PartialSums::place_of(Size micro_step) const {
  if (micro_steps_ == 0) return {micro_step > 0 ? std::vector{sum_} : std::vector<Tensor>(), sum_};
  const bool is_last = micro_step + 1 == micro_steps_;
  // Digit i of micro_step is 1 if partial_[i] holds a sum. The last leaf takes in all of them, the smallest first.
  std::vector<Tensor> addends;
  std::size_t digit = 0;
  for (; digit < partial_.size(); ++digit) {
    if ((micro_step >> digit & 1) != 0) {
      addends.push_back(partial_[digit]);
    } else if (!is_last) {
      break;
    }
  }
  return {std::move(addends), is_last ? sum_ : partial_[digit]};
}

}  // namespace lt::parallel
