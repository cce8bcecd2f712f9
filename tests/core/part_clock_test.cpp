// The part clock: parts add up to the wall time, and scopes return to the part that they interrupted.
#include "libtrain/part_clock.h"

#include <numeric>

#include "test_main/catch.h"

using namespace lt;

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void spend(double ms) {
  for (const auto begin = Clock::now(); ms_since(begin) < ms;) {
  }
}

double of(const PartTimes& ms, Part part) { return ms[static_cast<std::size_t>(part)]; }
double total(const PartTimes& ms) { return std::accumulate(ms.begin(), ms.end(), 0.0); }

}  // namespace

TEST_CASE("part clock: nested parts, each with its own time, add up to the whole", "[core]") {
  PartClock clock;
  const PartClockScope current(&clock);
  const auto before = Clock::now();
  clock.lap().times();
  const auto inside = Clock::now();
  {
    const PartScope forward(Part::forward);
    spend(1);
    {
      const PartScope gather(Part::gather_exposed);
      spend(2);
    }
    spend(1);
    {
      const PartScope gather(Part::gather_exposed);
      const PartScope reduce(Part::reduce_exposed);
      spend(3);
    }
  }
  spend(1);
  const double least = ms_since(inside);
  const auto ms = clock.lap().times();
  const double most = ms_since(before);
  CHECK(of(ms, Part::forward) >= 2);
  CHECK(of(ms, Part::gather_exposed) >= 2);
  CHECK(of(ms, Part::reduce_exposed) >= 3);
  CHECK(of(ms, Part::other) >= 1);
  CHECK(of(ms, Part::backward) == 0);
  CHECK(of(ms, Part::optimizer) == 0);
  // Sums of at most a dozen differences of nanoseconds: exact but for the rounding of doubles.
  CHECK(total(ms) >= least - 1e-6);
  CHECK(total(ms) <= most + 1e-6);
}

TEST_CASE("part clock: a lap starts from zero, in the part that is current", "[core]") {
  PartClock clock;
  const PartClockScope current(&clock);
  const PartScope data(Part::data);
  spend(1);
  CHECK(of(clock.lap().times(), Part::data) >= 1);
  const auto begin = Clock::now();
  spend(1);
  const auto ms = clock.lap().times();
  CHECK(of(ms, Part::data) >= 1);
  CHECK(of(ms, Part::other) == 0);
  CHECK(total(ms) == of(ms, Part::data));
  CHECK(ms_since(begin) >= 1);
}

TEST_CASE("part clock: without a current clock scopes do nothing", "[core]") {
  PartClock clock;
  clock.lap().times();
  REQUIRE(Context::current().clock == nullptr);
  {
    const PartScope forward(Part::forward);
    spend(0.1);
    Context::current().clock = &clock;  // a scope belongs to the clock at its beginning
  }
  Context::current().clock = nullptr;
  const auto ms = clock.lap().times();
  CHECK(of(ms, Part::forward) == 0);
  CHECK(total(ms) == of(ms, Part::other));
}

TEST_CASE("part clock: enter() returns the part that was current", "[core]") {
  PartClock clock;
  CHECK(clock.enter(Part::forward) == Part::other);
  CHECK(clock.enter(Part::backward) == Part::forward);
  CHECK(clock.enter(Part::other) == Part::backward);
}

TEST_CASE("part clock: a scope gives the clock back that was current, also where an exception passes", "[core]") {
  PartClock outer;
  const PartClockScope current(&outer);
  try {
    PartClock inner;
    const PartClockScope nested(&inner);
    CHECK(Context::current().clock == &inner);
    const PartClockScope aside(nullptr);
    CHECK(Context::current().clock == nullptr);
    throw 1;
  } catch (int) {
  }
  CHECK(Context::current().clock == &outer);
}
