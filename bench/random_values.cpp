// Random inputs for the kernels that are measured.
#include <algorithm>

#include "bench/kernel_case.h"
#include "libtrain/kernels/random.h"

namespace lt::bench {
namespace {

// Values repeat with this period. Without it, filling large weights would take longer than measuring.
constexpr Size kPeriod = 1000003;

// Returns a different key for every array of a run.
std::uint64_t next_key() {
  static std::uint64_t key = 0;
  return ++key;
}

}  // namespace

Tensor random_values(const Shape& shape, DType dtype, Device device) {
  const std::uint64_t key = next_key();
  const Size N = shape.elements();
  std::vector<float> values(static_cast<std::size_t>(std::min(N, kPeriod)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * uniform_from(philox_word(key, i)) - 1;
  const Tensor exact = Tensor::empty(shape, DType::f32, device), flat = exact.view({N});
  Size filled = static_cast<Size>(values.size());
  copy(flat.narrow(0, 0, filled), Tensor::from(values, {filled}));
  while (filled < N) {  // repeats the first values
    const Size count = std::min(filled, N - filled);
    copy(flat.narrow(0, filled, count), flat.narrow(0, 0, count));
    filled += count;
  }
  if (dtype == DType::f32) return exact;
  const Tensor rounded = Tensor::empty(shape, dtype, device);
  copy(rounded, exact);
  return rounded;
}

Tensor random_ids(Size count, Size limit, Device device) {
  const std::uint64_t key = next_key();
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(philox_word(key, i) % static_cast<std::uint64_t>(limit));
  }
  return Tensor::from(ids, {count}, device);
}

}  // namespace lt::bench
