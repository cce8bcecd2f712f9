// The order in which a reduce-scatter adds the contributions of ranks, written plainly.
#pragma once

namespace lt_test {

// The sum of `count` values in tree order: of the largest power of two of them, and of the rest.
template <class T>
T tree_sum(const T* values, int count) {
  if (count == 1) return *values;
  int left = 1;
  while (2 * left < count) left *= 2;
  return tree_sum(values, left) + tree_sum(values + left, count - left);
}

}  // namespace lt_test
