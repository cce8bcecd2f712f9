// Finds the partial sums to which a leaf is added.
#include "parallel/partial_sums.h"

#include <bit>
#include <cstdint>

namespace lt::parallel {

int partial_sums_of(Size micro_steps) { return std::bit_width(static_cast<std::uint64_t>(micro_steps - 1)); }

PartialSums::Place PartialSums::place_of(Size micro_step) const {
  if (micro_steps_ == 0) return {micro_step > 0 ? std::vector{whole_} : std::vector<Tensor>(), whole_};
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
  return {std::move(addends), is_last ? whole_ : partial_[digit]};
}

}  // namespace lt::parallel
