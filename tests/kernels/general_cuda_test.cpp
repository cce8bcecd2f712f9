// The kernels of the general operations on CUDA, compared with the CPU.
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/functions.h"
#include "kernels/gather.h"
#include "kernels/on_both.h"
#include "kernels/reduce.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

const std::int32_t* numbers_at(const void* p) { return static_cast<const std::int32_t*>(p); }

}  // namespace

TEST_CASE("cuda: functions of each element", "[cuda]") {
  for_floats([](DType dtype) {
    for (const Size n : {Size{1}, Size{7}, Size{100'003}}) {
      for (int f = 0; f <= static_cast<int>(ElementFunction::sigmoid); ++f) {  // the last one
        for (const bool add : {false, true}) {
          OnBoth both;
          // Positive, for log and sqrt.
          Array values = random_array(dtype, n, 3);
          for (Size i = 0; i < n; ++i) values.set(i, 0.5 + std::fabs(values[i]));
          const int x = both.add(std::move(values)), dy = both.array(dtype, n);
          const int y = both.array(dtype, n), dx = both.array(dtype, n);
          both.run([&](auto s, auto at) {
            function_forward(s, static_cast<ElementFunction>(f), dtype, at(y), at(x), n);
            function_backward(s, static_cast<ElementFunction>(f), dtype, at(dx), at(dy), at(x), n, add);
          });
        }
      }
    }
  });
}

TEST_CASE("cuda: functions of an element and a number", "[cuda]") {
  for_floats([](DType dtype) {
    for (const Size n : {Size{1}, Size{7}, Size{100'003}}) {
      for (int f = 0; f <= static_cast<int>(NumberFunction::power); ++f) {  // the last one
        for (const double c : {0.7, 2.0, 2.5}) {
          for (const bool add : {false, true}) {
            const auto function = static_cast<NumberFunction>(f);
            OnBoth both;
            // Positive, for powers.
            Array values = random_array(dtype, n, 3);
            for (Size i = 0; i < n; ++i) values.set(i, 0.5 + std::fabs(values[i]));
            const int x = both.add(std::move(values)), dy = both.array(dtype, n);
            const int y = both.array(dtype, n), dx = both.array(dtype, n);
            both.run([&](auto s, auto at) {
              number_function_forward(s, function, dtype, at(y), at(x), c, n);
              const void* const input = gradient_needs_input(function) ? at(x) : nullptr;
              number_function_backward(s, {function, dtype, at(dx), at(dy), input, c, n, add});
            });
          }
        }
      }
    }
  });
}

TEST_CASE("cuda: subtract and comparisons, broadcast, of equal numbers and NaN too", "[cuda]") {
  const Comparison relation{10, 20, 30, 40};
  for_floats([&](DType dtype) {
    for (const Size n : {Size{1}, Size{7}, Size{100'003}}) {
      for (const bool flag : {false, true}) {
        OnBoth both;
        const int a = both.array(dtype, n), b = both.array(dtype, n), difference = both.array(dtype, n);
        Array left(dtype, n), right(dtype, n);
        for (Size i = 0; i < n; ++i) left.set(i, static_cast<double>(i % 3)), right.set(i, static_cast<double>(i % 5));
        if (n > 6) left.set(5, std::nan("")), right.set(6, std::nan(""));
        const int x = both.exact(both.add(std::move(left))), y = both.exact(both.add(std::move(right)));
        const int with_tensor = both.exact(both.constant(DType::f32, n, 99));
        const int with_number = both.exact(both.constant(DType::f32, n, 99));
        const int ids = both.ids(n, 5), others = both.ids(n, 5), of_ids = both.exact(both.constant(DType::f32, n, 99));
        both.run([&](auto s, auto at) {
          const Strided turned{2, {1, n}, {n, 1}, {0, 1}, {0, flag ? Size{0} : Size{1}}};
          const auto masks_at = [&](int index) { return static_cast<std::int32_t*>(at(index)); };
          subtract(s, dtype, turned, at(difference), at(a), at(b));
          compare(s, relation, dtype, turned, masks_at(with_tensor), at(x), at(y), 0);
          compare(s, relation, dtype, turned, masks_at(with_number), at(x), nullptr, 1);
          compare(s, relation, DType::i32, turned, masks_at(of_ids), at(ids), flag ? nullptr : at(others), 2);
        });
      }
    }
  });
}

TEST_CASE("cuda: gather, cumulative sum, select, divide, maximum", "[cuda]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const MiddleShape m :
         {MiddleShape{1, 1, 1}, MiddleShape{3, 5, 7}, MiddleShape{2, 300, 1}, MiddleShape{1, 40, 129}}) {
      const Size K = 9, n = m.O * m.R * m.I, picked = m.O * K * m.I;
      for (const bool flag : {false, true}) {
        OnBoth both;
        const int x = both.array(dtype, n), index = both.ids(picked, m.R), y = both.array(dtype, picked);
        const int dy = both.array(dtype, picked), dx = both.array(sums, n), grown = both.array(dtype, n);
        const int condition = both.ids(n, 2), other = both.array(dtype, n), chosen = both.array(dtype, n);
        const int masked = both.array(dtype, n), divisor = both.constant(dtype, n, 1.5), ratio = both.array(dtype, n);
        const int larger = both.array(dtype, n), share = both.array(dtype, n), ratio_share = both.array(dtype, n);
        both.run(
            [&](auto s, auto at) {
              gather(s, dtype, at(y), at(x), numbers_at(at(index)), m, K);
              gather_backward(s, dtype, at(dx), flag, at(dy), numbers_at(at(index)), m, K);
              cumulative_sum(s, dtype, at(grown), at(x), m, flag, false);
              select(s, dtype, at(chosen), numbers_at(at(condition)), at(x), at(other), n);
              select(s, dtype, at(masked), numbers_at(at(condition)), flag ? at(x) : nullptr, flag ? nullptr : at(x),
                     n);
              const Strided flat{1, {n}, {1}, {1}, {1}},
                  turned{2, {1, n}, {n, 1}, {0, 1}, {0, flag ? Size{0} : Size{1}}};
              divide(s, dtype, flat, at(ratio), at(x), at(divisor));
              divide_backward(s, dtype, flat, at(ratio_share), at(x), at(divisor));
              maximum(s, dtype, turned, at(larger), at(x), at(other));
              maximum_backward(s, dtype, turned, at(share), at(x), at(other));
            },
            8);
      }
    }
  });
}

TEST_CASE("cuda: sums of long rows, and in the gradients' dtype", "[cuda]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const MiddleShape m : {MiddleShape{1, 1'000'003, 1}, MiddleShape{3, 70'000, 1}, MiddleShape{2, 50, 3},
                                MiddleShape{1, 5'000, 4}, MiddleShape{2, 40'000, 1}, MiddleShape{2, 1'300, 3}}) {
      OnBoth both;
      const int x = both.array(dtype, m.O * m.R * m.I, 0.01), out = both.array(sums, m.O * m.I);
      both.run([&](auto s, auto at) { sum_middle(s, sums, at(out), dtype, at(x), m, false); }, 16);
    }
  });
}

// Equal numbers round alike, so the error of a running sum grows with its length.
TEST_CASE("cuda: long sums of equal numbers lose few digits", "[cuda]") {
  if (!has_gpu()) return;
  const Array x(DType::f32, 24'000'006, 0.1);
  DeviceArray there(x);
  for (const MiddleShape m :
       {MiddleShape{1, x.count(), 1}, {400, x.count() / 400, 1}, {2, x.count() / 6, 3}, {1, x.count() / 2, 2}}) {
    INFO(m.O << " " << m.R << " " << m.I);
    const double expected = static_cast<double>(0.1f) * static_cast<double>(m.R);
    Array sums(DType::f32, m.O * m.I);
    DeviceArray sums_there(sums);
    sum_middle(gpu_stream(), DType::f32, sums_there.data(), DType::f32, there.data(), m, false);
    sums_there.read(sums);
    for (const double sum : sums.values()) CHECK(std::abs(sum - expected) <= 3e-5 * expected);
  }
}
