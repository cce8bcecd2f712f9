// Inputs of the kernels that are measured.
#include "kernel_case.h"
#include "libtrain/random.h"

namespace lt::bench {
namespace {

// Numbers repeat after so many: large weights would take longer to make than to measure.
constexpr std::size_t kPeriod = 1000003;

// The key of no two arrays of a run is the same.
std::uint64_t next_key() {
  static std::uint64_t key = 0;
  return ++key;
}

}  // namespace

Tensor random_values(const Shape& shape, DType dtype, Device device) {
  const std::uint64_t key = next_key();
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i < kPeriod ? 2 * uniform_from(philox_word(key, i)) - 1 : values[i - kPeriod];
  }
  const Tensor exact = Tensor::from(values, shape, device);
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
