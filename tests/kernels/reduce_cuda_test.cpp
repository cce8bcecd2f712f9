// Sums on CUDA compared with the CPU. Sums over ranks in slices compared with sums over whole arrays.
#include <algorithm>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/on_both.h"
#include "kernels/reduce.h"
#include "test_main/tree_sum.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

TEST_CASE("cuda: sums", "[cuda]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const auto [R, C] : kRows) {
      for (const bool add : {false, true}) {
        OnBoth both;
        const int x = both.array(dtype, R * C), rows = both.array(sums, C), own = both.array(dtype, C),
                  within = both.array(dtype, R), middle = both.array(dtype, 3 * C),
                  three = both.array(dtype, 3 * R * C);
        both.run([&, R = R, C = C](auto s, auto at) {
          sum_rows(s, sums, at(rows), dtype, at(x), R, C, add);
          sum_rows(s, dtype, at(own), dtype, at(x), R, C, add);
          sum_middle(s, dtype, at(within), dtype, at(x), {R, C, 1}, add);
          sum_middle(s, dtype, at(middle), dtype, at(three), {3, R, C}, add);
        });
      }
    }
    for (const Size n : kCounts) {
      if (dtype == DType::f16) continue;
      OnBoth both;
      const int x = both.array(dtype, n), squares = both.array(DType::f64, 1), all = both.array(dtype, 1);
      both.run([&](auto s, auto at) {
        sum_squares(s, dtype, static_cast<double*>(at(squares)), at(x), n);
        sum_all(s, dtype, at(all), at(x), n, 0.5);
      });
    }
    for (const Size piece : {64, 4096, 4160}) {
      if (dtype == DType::f16) continue;
      OnBoth both;
      const int x = both.array(dtype, 64 * piece), squares = both.array(DType::f64, 1);
      both.run([&](auto s, auto at) {
        sum_squares(s, dtype, static_cast<double*>(at(squares)), at(x), 64 * piece, nullptr, piece);
      });
    }
    for (const DType to : {DType::f32, DType::f64, DType::bf16}) {
      if (dtype == DType::f16) continue;
      for (const Size n : {1003, 4096, 20488}) {
        OnBoth both;
        std::vector<int> ranks;
        for (int rank = 0; rank < 70; ++rank) ranks.push_back(both.array(dtype, n));
        // The same additions in the same order, rounded once.
        const int few = both.exact(both.array(to, n)), many = both.exact(both.array(to, n)),
                  one = both.exact(both.array(to, n)), last = both.exact(ranks.back()),
                  powers[] = {both.exact(both.array(to, n)), both.exact(both.array(to, n)),
                              both.exact(both.array(to, n))};
        const int squares = both.array(DType::f64, 3), partials = both.array(DType::f64, sum_blocks(n));
        both.run([&](auto s, auto at) {
          std::vector<const void*> parts;
          for (const int rank : ranks) parts.push_back(at(rank));
          sum_ranks(s, to, at(few), dtype, parts.data(), 3, n, {{at(few)}});
          sum_ranks(s, to, at(many), dtype, parts.data(), 70, n, {});
          sum_ranks(s, to, at(one), dtype, parts.data(), 1, n, {{at(few), at(one), at(many)}});
          for (int i = 0; i < 3; ++i) {
            sum_ranks(s, to, at(powers[i]), dtype, parts.data(), 2 << i, n, {{at(powers[i])}},
                      static_cast<double*>(at(squares)) + i, static_cast<double*>(at(partials)));
          }
          sum_ranks(s, dtype, at(last), dtype, parts.data(), 70, n, {});  // overwrites one of them
        });
      }
    }
  });
}

TEST_CASE("cuda: sum_squares of pieces is the sum of its halves' sums", "[cuda]") {
  if (!has_gpu()) return;
  for (const Size piece : {Size(64), Size(4096), Size(4160), Size(300 * 4096 + 64)}) {
    DeviceArray x(random_array(DType::f32, 64 * piece, 5)), sum(Size(sizeof(double)));
    const auto sum_of = [&](Size first, Size pieces) {
      const float* const begin = static_cast<const float*>(x.data()) + first * piece;
      sum_squares(gpu_stream(), DType::f32, static_cast<double*>(sum.data()), begin, pieces * piece, nullptr, piece);
      Array read(DType::f64, 1);
      sum.read(read);
      return read[0];
    };
    const double whole = sum_of(0, 64);
    for (Size shards = 64; shards > 1; shards /= 2) {
      std::vector<double> sums;
      for (Size shard = 0; shard < shards; ++shard) sums.push_back(sum_of(shard * 64 / shards, 64 / shards));
      CHECK(lt_test::tree_sum(sums.data(), static_cast<int>(shards)) == whole);
    }
  }
}

TEST_CASE("cuda: a sum over ranks in slices has the bits of a whole one", "[cuda]") {
  if (!has_gpu()) return;
  const auto check = [](DType to, DType dtype) {
    CAPTURE(dtype_name(to), dtype_name(dtype));
    constexpr Size kCount = 5 * kSumBlock + 3 * kSumPack, kSlice = 2 * kSumBlock;
    const Size blocks = sum_blocks(kCount);
    Array sums[] = {Array(to, kCount), Array(to, kCount)},
          squares[] = {Array(DType::f64, blocks + 1), Array(DType::f64, blocks + 1)};  // of blocks, and of all
    DeviceArray x[] = {DeviceArray(random_array(dtype, kCount, 1)), DeviceArray(random_array(dtype, kCount, 2)),
                       DeviceArray(random_array(dtype, kCount, 3))};
    for (const Size at_once : {kCount, kSlice}) {
      const int i = at_once == kCount ? 0 : 1;
      DeviceArray y(random_array(to, kCount, 4)), partials(squares[i]);
      for (Size begin = 0; begin < kCount; begin += at_once) {
        const Size count = std::min(at_once, kCount - begin);
        const auto slice = [&](DeviceArray& all, DType of) {
          return static_cast<std::byte*>(all.data()) + begin * dtype_bytes(of);
        };
        const void* const parts[] = {slice(x[0], dtype), slice(x[1], dtype), slice(x[2], dtype)};
        auto* const of_blocks = static_cast<double*>(partials.data());
        sum_ranks(gpu_stream(), to, slice(y, to), dtype, parts, 3, count, {{slice(y, to)}},
                  begin + count == kCount ? of_blocks + blocks : nullptr, of_blocks, begin / kSumBlock);
      }
      y.read(sums[i]), partials.read(squares[i]);
    }
    CHECK(sums[1].same_bits(sums[0]));
    CHECK(squares[1].same_bits(squares[0]));
    CHECK(squares[0].values().back() > 0);
  };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) check(dtype, dtype);
  check(DType::f32, DType::bf16);  // a wire
}
