// Sums against f64 references. Neither threads nor the ranks' dtypes change their order.
#include "kernels/reduce.h"

#include <omp.h>

#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/tree_sum.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

TEST_CASE("sum_squares is exact in double and the same at every number of threads", "[kernels]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const Size n : {Size(0), Size(1), Size(31), kSumBlock, kSumBlock + 1, 5 * kSumBlock + 77, Size(300001)}) {
      const Array x = random_array(dtype, n, 1, 3);
      long double expected = 0;
      for (Size i = 0; i < n; ++i) expected += static_cast<long double>(x[i]) * static_cast<long double>(x[i]);
      const int threads = omp_get_max_threads();
      double sums[2] = {-1, -1};
      for (const int count : {1, 3}) {
        omp_set_num_threads(count);
        sum_squares(CpuStream{}, dtype, &sums[count == 1 ? 0 : 1], x.data(), n);
      }
      omp_set_num_threads(threads);
      CHECK(std::abs(sums[0] - static_cast<double>(expected)) <= 1e-14 * static_cast<double>(expected));
      CHECK(std::memcmp(&sums[0], &sums[1], sizeof(double)) == 0);
    }
  }
  Array x(DType::f32, 10000);
  x.set(9000, std::nan(""));
  double sum = 0;
  sum_squares(CpuStream{}, DType::f32, &sum, x.data(), x.count());
  CHECK(std::isnan(sum));
  CHECK_THROWS_AS(sum_squares(CpuStream{}, DType::i32, &sum, x.data(), x.count()), InternalError);
}

TEST_CASE("sum_squares of pieces is the sum of its halves' sums", "[kernels]") {
  for (const Size piece : {Size(64), Size(4096), Size(4160), Size(3 * 4096 + 64)}) {
    const Array x = random_array(DType::f32, 64 * piece, 5);
    // The sum over `pieces` pieces from `first` on, added up by `shards` callers and then in tree order.
    const auto sum_of = [&](Size first, Size pieces) {
      double sum = -1;
      const float* const begin = static_cast<const float*>(x.data()) + first * piece;
      sum_squares(CpuStream{}, DType::f32, &sum, begin, pieces * piece, nullptr, piece);
      return sum;
    };
    const double whole = sum_of(0, 64);
    for (Size shards = 64; shards > 1; shards /= 2) {
      std::vector<double> sums;
      for (Size shard = 0; shard < shards; ++shard) sums.push_back(sum_of(shard * 64 / shards, 64 / shards));
      CHECK(lt_test::tree_sum(sums.data(), static_cast<int>(shards)) == whole);
    }
    double in_order = -1;
    sum_squares(CpuStream{}, DType::f32, &in_order, x.data(), x.count());
    CHECK(in_order == Approx(whole).epsilon(1e-14));
  }
}

TEST_CASE("sum_middle over every position of the dimension", "[kernels]") {
  struct Shape {
    Size O, R, I;
  };
  for (const DType dtype : kFloats) {
    for (const Shape s :
         {Shape{1, 1, 1}, {3, 4, 5}, {7, 100, 1}, {1, 513, 37}, {2, 65, 300}, {5, 0, 3}, {300, 9, 33}}) {
      for (const bool accumulate : {false, true}) {
        INFO(dtype_name(dtype) << " " << s.O << " " << s.R << " " << s.I << " accumulate " << accumulate);
        const Array x = random_array(dtype, s.O * s.R * s.I, 1);
        Array out = random_array(dtype, s.O * s.I, 2);
        std::vector<double> expected(static_cast<std::size_t>(s.O * s.I));
        if (accumulate) expected = out.values();
        for (Size i = 0; i < x.count(); ++i)
          expected[static_cast<std::size_t>(i / (s.R * s.I) * s.I + i % s.I)] += x[i];
        sum_middle(CpuStream{}, dtype, out.data(), dtype, x.data(), {s.O, s.R, s.I}, accumulate);
        CHECK(error_of(out, expected) <= tolerance(dtype));
      }
    }
  }
}

TEST_CASE("sum_rows to the type of the rows and to that of gradients", "[kernels]") {
  struct Shape {
    Size R, C;
  };
  for (const DType dtype : kFloats) {
    for (const DType to : {dtype, kernels::gradient_dtype(dtype)}) {
      for (const Shape s : {Shape{1, 1}, {5, 3}, {66, 129}, {2048, 100}, {3, 5000}}) {
        for (const bool accumulate : {false, true}) {
          const Array x = random_array(dtype, s.R * s.C, 1), before = random_array(to, s.C, 2);
          std::vector<double> expected(static_cast<std::size_t>(s.C));
          if (accumulate) expected = before.values();
          for (Size i = 0; i < x.count(); ++i) expected[static_cast<std::size_t>(i % s.C)] += x[i];
          const int threads = omp_get_max_threads();
          std::vector<Array> results;
          for (const int count : {1, 3}) {
            omp_set_num_threads(count);
            results.push_back(copy_of(before));
            sum_rows(CpuStream{}, to, results.back().data(), dtype, x.data(), s.R, s.C, accumulate);
          }
          omp_set_num_threads(threads);
          INFO(dtype_name(dtype) << " to " << dtype_name(to) << " " << s.R << " x " << s.C);
          CHECK(error_of(results[0], expected) <= tolerance(to));
          CHECK(results[0].same_bits(results[1]));
        }
      }
    }
  }
}

// Equal numbers round alike, so the error of a running sum grows with its length.
TEST_CASE("long sums lose few digits, and short ones are a single run", "[kernels]") {
  const Array x(DType::f32, 2'400'006, 0.1);
  for (const MiddleShape m :
       {MiddleShape{1, x.count(), 1}, {2, x.count() / 2, 1}, {2, x.count() / 6, 3}, {1, x.count() / 2, 2}}) {
    INFO(m.O << " " << m.R << " " << m.I);
    const double expected = static_cast<double>(0.1f) * static_cast<double>(m.R);
    const int threads = omp_get_max_threads();
    Array sums[] = {Array(DType::f32, m.O * m.I), Array(DType::f32, m.O * m.I)};
    for (const int count : {1, 3}) {
      omp_set_num_threads(count);
      sum_middle(CpuStream{}, DType::f32, sums[count / 2].data(), DType::f32, x.data(), m, false);
    }
    omp_set_num_threads(threads);
    for (const double sum : sums[0].values()) CHECK(std::abs(sum - expected) <= 8e-6 * expected);
    CHECK(sums[0].same_bits(sums[1]));
  }
  const Array y = random_array(DType::f32, 2 * kLongestRun * 3, 4);
  Array sums(DType::f32, 6);
  sum_middle(CpuStream{}, DType::f32, sums.data(), DType::f32, y.data(), {2, kLongestRun, 3}, false);
  for (Size k = 0; k < sums.count(); ++k) {
    float sum = 0;
    for (Size r = 0; r < kLongestRun; ++r) sum += static_cast<float>(y[(k / 3 * kLongestRun + r) * 3 + k % 3]);
    CHECK(sums[k] == static_cast<double>(sum));
  }
}

TEST_CASE("sum_ranks adds in tree order and rounds once", "[kernels]") {
  for (const DType from : {DType::f32, DType::f64, DType::bf16}) {
    for (const DType to : {DType::f32, DType::f64, DType::bf16}) {
      for (const int ranks : {1, 2, 4, 7, 13}) {
        for (const Size n : {Size(1), Size(1023), Size(40001)}) {
          for (const int addends : {0, 1, 3}) {  // the first is y itself
            std::vector<Array> parts;
            std::vector<const void*> pointers;
            for (int r = 0; r < ranks; ++r) parts.push_back(random_array(from, n, static_cast<std::uint64_t>(r)));
            for (const Array& part : parts) pointers.push_back(part.data());
            Array y = random_array(to, n, 9);
            std::vector<double> expected = y.values();
            Size wrong = 0;
            std::vector<Array> added;
            std::vector<const void*> added_pointers;
            for (int i = 0; i < addends; ++i) {
              added.push_back(i == 0 ? copy_of(y) : random_array(to, n, static_cast<std::uint64_t>(20 + i)));
            }
            for (const Array& addend : added) added_pointers.push_back(addend.data());
            if (addends > 0) added_pointers[0] = y.data();
            double squares = -1, exact = 0;
            sum_ranks(CpuStream{}, to, y.data(), from, pointers.data(), ranks, n, added_pointers, &squares);
            for (Size i = 0; i < n; ++i) exact += y[i] * y[i];  // of what is stored
            CHECK(squares == Approx(exact).epsilon(1e-12));
            for (Size i = 0; i < n; ++i) {
              double sum = 0;
              std::vector<float> values;
              for (const Array& part : parts) sum += part[i], values.push_back(static_cast<float>(part[i]));
              const float in_f32 = lt_test::tree_sum(values.data(), ranks);
              // From f32 or bf16 to f32, the order is visible: exactly this one.
              float total = in_f32;
              for (const Array& addend : added) sum += addend[i], total += static_cast<float>(addend[i]);
              expected[static_cast<std::size_t>(i)] = sum;
              if (from != DType::f64 && to == DType::f32) wrong += y[i] != static_cast<double>(total);
            }
            CHECK(error_of(y, expected) <= (from == DType::f64 ? tolerance(to) : std::max(tolerance(to), 1e-6)));
            CHECK(wrong == 0);
          }
        }
      }
    }
  }
  Array a = random_array(DType::f32, 5000, 1);
  const Array b = random_array(DType::f32, 5000, 2);
  Array apart(DType::f32, 5000);
  const void* pointers[] = {a.data(), b.data()};
  sum_ranks(CpuStream{}, DType::f32, apart.data(), DType::f32, pointers, 2, 5000, {});
  sum_ranks(CpuStream{}, DType::f32, a.data(), DType::f32, pointers, 2, 5000, {});
  CHECK(a.same_bits(apart));
  double none = -1;
  sum_ranks(CpuStream{}, DType::f32, a.data(), DType::f32, pointers, 2, 0, {}, &none);
  CHECK(none == 0);
}
