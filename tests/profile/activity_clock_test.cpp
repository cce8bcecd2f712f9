// The activity clock: the activities' times add up to the wall time, and a scope returns to the activity that it
// interrupted.
#include "profile/activity_clock.h"

#include <numeric>

#include "test_main/catch.h"

using namespace lt;
using namespace lt::profile;

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void spend(double ms) {
  for (const auto begin = Clock::now(); ms_since(begin) < ms;) {
  }
}

double of(const ActivityTimes& ms, Activity activity) { return ms[static_cast<std::size_t>(activity)]; }
double total(const ActivityTimes& ms) { return std::accumulate(ms.begin(), ms.end(), 0.0); }

}  // namespace

TEST_CASE("activity clock: nested activities, each with its own time, add up to the whole", "[profile]") {
  ActivityClock clock;
  const ActivityClockScope current(&clock);
  const auto before = Clock::now();
  clock.lap().times();
  const auto inside = Clock::now();
  {
    const ActivityScope forward(Activity::forward);
    spend(1);
    {
      const ActivityScope gather(Activity::gather_exposed);
      spend(2);
    }
    spend(1);
    {
      const ActivityScope gather(Activity::gather_exposed);
      const ActivityScope reduce(Activity::reduce_exposed);
      spend(3);
    }
  }
  spend(1);
  const double least = ms_since(inside);
  const auto ms = clock.lap().times();
  const double most = ms_since(before);
  CHECK(of(ms, Activity::forward) >= 2);
  CHECK(of(ms, Activity::gather_exposed) >= 2);
  CHECK(of(ms, Activity::reduce_exposed) >= 3);
  CHECK(of(ms, Activity::other) >= 1);
  CHECK(of(ms, Activity::backward) == 0);
  CHECK(of(ms, Activity::optimizer) == 0);
  // Sums of at most a dozen differences of nanoseconds: exact except for the rounding of doubles.
  CHECK(total(ms) >= least - 1e-6);
  CHECK(total(ms) <= most + 1e-6);
}

TEST_CASE("activity clock: a lap starts from zero, in the current activity", "[profile]") {
  ActivityClock clock;
  const ActivityClockScope current(&clock);
  const ActivityScope data(Activity::data);
  spend(1);
  CHECK(of(clock.lap().times(), Activity::data) >= 1);
  const auto begin = Clock::now();
  spend(1);
  const auto ms = clock.lap().times();
  CHECK(of(ms, Activity::data) >= 1);
  CHECK(of(ms, Activity::other) == 0);
  CHECK(total(ms) == of(ms, Activity::data));
  CHECK(ms_since(begin) >= 1);
}

TEST_CASE("activity clock: without a current clock scopes do nothing", "[profile]") {
  ActivityClock clock;
  clock.lap().times();
  REQUIRE(Context::current().clock == nullptr);
  {
    const ActivityScope forward(Activity::forward);
    spend(0.1);
    Context::current().clock = &clock;  // a scope belongs to the clock at its beginning
  }
  Context::current().clock = nullptr;
  const auto ms = clock.lap().times();
  CHECK(of(ms, Activity::forward) == 0);
  CHECK(total(ms) == of(ms, Activity::other));
}

TEST_CASE("activity clock: enter() returns the previous activity", "[profile]") {
  ActivityClock clock;
  CHECK(clock.enter(Activity::forward) == Activity::other);
  CHECK(clock.enter(Activity::backward) == Activity::forward);
  CHECK(clock.enter(Activity::other) == Activity::backward);
  CHECK(clock.lap().time_points() == 4);
  CHECK(clock.enter(Activity::other) == Activity::other);
  CHECK(clock.lap().time_points() == 1);  // none where the activity stays the same
}

TEST_CASE("activity clock: a scope restores the previous clock, also during stack unwinding", "[profile]") {
  ActivityClock outer;
  const ActivityClockScope current(&outer);
  try {
    ActivityClock inner;
    const ActivityClockScope nested(&inner);
    CHECK(Context::current().clock == &inner);
    const ActivityClockScope aside(nullptr);
    CHECK(Context::current().clock == nullptr);
    throw 1;
  } catch (int) {
  }
  CHECK(Context::current().clock == &outer);
}
