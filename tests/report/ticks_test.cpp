// Ticks of axes: they cover the range, and there are few of them however small the range is.
#include "drawing/ticks.h"

#include <cmath>
#include <limits>
#include <vector>

#include "test_main/catch.h"

namespace {

using lt::drawing::inner_ticks, lt::drawing::outer_ticks, lt::drawing::Range;

}  // namespace

TEST_CASE("ticks: multiples of 1, 2 or 5 that cover the range", "[drawing]") {
  CHECK(outer_ticks({0, 10}, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(inner_ticks({3, 11}, 5, true) == std::vector<double>{4, 6, 8, 10});
}

TEST_CASE("ticks: a range of a few last digits is drawn as a constant", "[drawing]") {
  const double lr = 3e-4, close = std::nextafter(std::nextafter(lr, 1), 1);
  const auto covers = [](const std::vector<double>& ticks, Range range) {
    return ticks.size() >= 2 && ticks.size() <= 12 && ticks.front() <= range.low && ticks.back() >= range.high;
  };
  CHECK(covers(outer_ticks({lr, close}, 5), {lr, close}));
  CHECK(covers(outer_ticks({-close, -lr}, 5), {-close, -lr}));
  CHECK(covers(outer_ticks({1e17, 1e17 + 64}, 5), {1e17, 1e17 + 64}));
  CHECK(covers(outer_ticks({0, std::numeric_limits<double>::denorm_min()}, 5), {0, 0}));
  CHECK(inner_ticks({1e17, 1e17 + 64}, 5, true) == std::vector<double>{1e17});
  // A range that double precision can divide is drawn as it is.
  const auto fine = outer_ticks({1, 1 + 1e-11}, 5);
  CHECK(covers(fine, {1, 1 + 1e-11}));
  CHECK(fine.back() < 1 + 1e-10);
}
