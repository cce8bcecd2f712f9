// Learning rates against their formulas: warm-up, decay with both of its ends, and beyond.
#include <cmath>
#include <numbers>

#include "libtrain/error.h"
#include "libtrain/optim/optimizer.h"
#include "test_main/catch.h"

using namespace lt;

namespace {

constexpr Decay kDecays[] = {Decay::constant, Decay::cosine, Decay::linear, Decay::wsd};

Schedule schedule(Decay decay, Size warmup, Size steps) {
  return {.decay = decay, .lr = 6e-4, .min_lr = 6e-5, .warmup = warmup, .steps = steps};
}

auto rate(double expected) { return Approx(expected).epsilon(1e-12); }

}  // namespace

TEST_CASE("warm-up: lr n / warmup, whatever comes after", "[optim]") {
  for (const Decay decay : kDecays) {
    const Schedule s = schedule(decay, 10, 100);
    CHECK(s.at(1) == rate(6e-5));
    CHECK(s.at(5) == rate(3e-4));
    CHECK(s.at(10) == rate(6e-4));
  }
  CHECK_THROWS_WITH(Schedule().at(0), "schedule: expected a step from 1, got 0");
}

TEST_CASE("cosine from lr to min_lr", "[optim]") {
  const Schedule s = schedule(Decay::cosine, 10, 110);
  for (const Size n : {11, 35, 60, 109, 110}) {
    const double p = static_cast<double>(n - 10) / 100;
    CHECK(s.at(n) == rate(6e-5 + (6e-4 - 6e-5) * (1 + std::cos(std::numbers::pi * p)) / 2));
  }
  CHECK(s.at(60) == rate((6e-4 + 6e-5) / 2));
  CHECK(s.at(110) == rate(6e-5));
}

TEST_CASE("linear from lr to min_lr", "[optim]") {
  const Schedule s = schedule(Decay::linear, 10, 110);
  CHECK(s.at(11) == rate(6e-4 - 5.4e-4 / 100));
  CHECK(s.at(60) == rate(3.3e-4));
  CHECK(s.at(110) == rate(6e-5));
}

TEST_CASE("wsd: lr, and over the last tenth of the steps after the warm-up linearly to min_lr", "[optim]") {
  const Schedule s = schedule(Decay::wsd, 10, 110);
  CHECK(s.at(11) == rate(6e-4));
  CHECK(s.at(100) == rate(6e-4));
  CHECK(s.at(105) == rate(3.3e-4));
  CHECK(s.at(110) == rate(6e-5));
}

TEST_CASE("constant: lr throughout after the warm-up", "[optim]") {
  const Schedule s = schedule(Decay::constant, 10, 110);
  for (const Size n : {10, 11, 60, 110, 1000}) CHECK(s.at(n) == rate(6e-4));
}

TEST_CASE("without a warm-up the first step is one of the decay", "[optim]") {
  CHECK(schedule(Decay::constant, 0, 10).at(1) == rate(6e-4));
  CHECK(schedule(Decay::linear, 0, 10).at(1) == rate(6e-4 - 5.4e-5));
  CHECK(schedule(Decay::cosine, 0, 10).at(1) == rate(6e-5 + 5.4e-4 * (1 + std::cos(std::numbers::pi / 10)) / 2));
  CHECK(schedule(Decay::wsd, 0, 10).at(1) == rate(6e-4));
  for (const Decay decay : {Decay::linear, Decay::cosine, Decay::wsd}) {
    CHECK(schedule(decay, 0, 10).at(10) == rate(6e-5));
    CHECK(schedule(decay, 0, 1).at(1) == rate(6e-5));  // the only step is the last
  }
}

TEST_CASE("past the last step the rate stays at its end", "[optim]") {
  for (const Decay decay : {Decay::linear, Decay::cosine, Decay::wsd}) {
    for (const Size n : {111, 200, 1000000}) CHECK(schedule(decay, 10, 110).at(n) == rate(6e-5));
  }
}

TEST_CASE("a warm-up as long as the run or longer", "[optim]") {
  for (const Decay decay : kDecays) {
    CHECK(schedule(decay, 10, 10).at(10) == rate(6e-4));
    CHECK(schedule(decay, 20, 10).at(10) == rate(3e-4));
    const double after = schedule(decay, 10, 10).at(11);
    CHECK(after == rate(decay == Decay::constant ? 6e-4 : 6e-5));
  }
}

TEST_CASE("rates never rise after the warm-up and stay between min_lr and lr", "[optim]") {
  for (const Decay decay : kDecays) {
    const Schedule s = schedule(decay, 7, 50);
    for (Size n = 8; n <= 60; ++n) {
      CHECK(s.at(n) <= s.at(n - 1));
      CHECK(s.at(n) <= 6e-4 * (1 + 1e-12));
      CHECK(s.at(n) >= 6e-5 * (1 - 1e-12));
    }
  }
}
