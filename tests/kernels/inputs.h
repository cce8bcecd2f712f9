// More inputs for kernel tests, in addition to array.h: wider ranges, token ids, copies, typed pointers.
#pragma once

#include "kernels/array.h"

namespace lt::test {

// Uniform in [-range, range), rounded to the dtype.
inline Array random_array(DType dtype, Size count, std::uint64_t key, double range = 1) {
  Array a = Array::random(dtype, count, key);
  for (Size i = 0; i < count; ++i) a.set(i, range * a[i]);
  return a;
}

// Rows of different sizes: row r within 2^(step_exponent (3 - r % 7)).
inline Array rows_of_all_sizes(DType dtype, Size R, Size C, std::uint64_t key, int step_exponent = 6) {
  Array x = Array::random(dtype, R * C, key);
  for (Size i = 0; i < R * C; ++i) x.set(i, std::ldexp(x[i], static_cast<int>(step_exponent * (3 - i / C % 7))));
  return x;
}

inline Array copy_of(const Array& a) {
  Array copy(a.dtype(), a.count());
  std::memcpy(copy.data(), a.data(), static_cast<std::size_t>(a.bytes()));
  return copy;
}

template <class T>
T* pointer(Array& a) {
  return static_cast<T*>(a.data());
}

// Token ids in [0, limit).
inline std::vector<std::int32_t> random_ids(Size count, Size limit, std::uint64_t key) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(philox_word(key, i) % static_cast<std::uint64_t>(limit));
  }
  return ids;
}

}  // namespace lt::test
