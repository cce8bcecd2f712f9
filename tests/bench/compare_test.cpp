// Tests the rule that decides if a difference between two results is more than noise.
#include "bench/compare.h"

#include "test_main/catch.h"

using lt::bench::compare;
using lt::bench::RowTimes;
using lt::bench::Verdict;

namespace {

constexpr double kThreshold = 0.05;

Verdict verdict(const RowTimes& a, const RowTimes& b) { return compare(a, b, kThreshold).verdict; }

}  // namespace

TEST_CASE("compare: quiet files differ beyond the threshold", "[bench]") {
  const RowTimes a{99.5, 100};
  CHECK(verdict(a, a) == Verdict::same);
  CHECK(verdict(a, {104, 104.9}) == Verdict::same);
  CHECK(verdict(a, {105, 105.1}) == Verdict::slower);
  CHECK(verdict(a, {129, 130}) == Verdict::slower);
  CHECK(verdict(a, {95.2, 95.3}) == Verdict::same);  // 1 / 1.05 = 0.952
  CHECK(verdict(a, {95, 95.1}) == Verdict::faster);
}

TEST_CASE("compare: the noise is twice the spread of the noisier file", "[bench]") {
  const RowTimes quiet{100, 100, {100, 100, 100}}, noisy{90, 100, {98, 100, 101}},
      drifting{99, 100, {99.5, 100, 109.5}};
  CHECK(compare(quiet, quiet, kThreshold).noise == Approx(0.05));
  CHECK(compare(quiet, noisy, kThreshold).noise == Approx(0.2));
  CHECK(compare(noisy, quiet, kThreshold).noise == Approx(0.2));
  CHECK(compare(quiet, drifting, kThreshold).noise == Approx(0.2));
  for (const RowTimes& unsteady : {noisy, drifting}) {
    CHECK(verdict(unsteady, {119, 119}) == Verdict::same);
    CHECK(verdict(unsteady, {121, 121}) == Verdict::slower);
    CHECK(compare(unsteady, {121, 121}, 0.3).verdict == Verdict::same);
  }
  CHECK(compare(noisy, {121, 121}, 0).ratio == Approx(1.21));
}

TEST_CASE("compare: noise above a quarter leaves it open", "[bench]") {
  const RowTimes wild{80, 100};
  CHECK(verdict(wild, wild) == Verdict::unclear);
  CHECK(verdict(wild, {139, 139}) == Verdict::unclear);
  CHECK(verdict(wild, {141, 141}) == Verdict::slower);
  CHECK(compare(wild, wild, 0.5).verdict == Verdict::same);  // the requested threshold counts
}

TEST_CASE("compare: files that change places change the verdict", "[bench]") {
  const RowTimes a{98, 100};
  for (const double median : {80.0, 90.0, 95.1, 99.0, 104.9, 105.1, 130.0}) {
    const RowTimes b{median * 0.98, median};
    const Verdict there = verdict(a, b), back = verdict(b, a);
    CAPTURE(median);
    CHECK((there == Verdict::same) == (back == Verdict::same));
    CHECK((there == Verdict::slower) == (back == Verdict::faster));
  }
}
