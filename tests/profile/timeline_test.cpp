// A timeline's origin, and the scope of the current timeline.
#include "libtrain/profile/timeline.h"

#include "test_main/catch.h"

using namespace lt;

TEST_CASE("timeline: times count from the origin that is given", "[profile]") {
  const Stream stream = Stream::compute(kCpu);
  const TimePoint origin = TimePoint::on(stream);
  const TimePoint begin = TimePoint::on(stream);
  const auto timeline = make_timeline(kCpu, origin);
  timeline->end(timeline->begin({Lane::compute, "span"}, begin), begin);
  CHECK(timeline->spans()[0].begin_us == begin.ms_since(origin) * 1e3);
  CHECK(timeline->spans()[0].begin_us >= 0);
}

TEST_CASE("timeline: a scope gives back what was current, also where an exception passes", "[profile]") {
  REQUIRE(Context::current().timeline == nullptr);
  const auto outer = make_timeline(), inner = make_timeline();
  try {
    const TimelineScope current(outer);
    {
      const TimelineScope nested(inner);
      const SpanScope span(Lane::compute, "inner");
      const TimelineScope aside(nullptr);
      const SpanScope nowhere(Lane::compute, "nowhere");
    }
    CHECK(Context::current().timeline == outer);
    const SpanScope span(Lane::gather, "outer");
    throw 1;
  } catch (int) {
  }
  CHECK(Context::current().timeline == nullptr);
  REQUIRE(outer->spans().size() == 1);
  REQUIRE(inner->spans().size() == 1);
  CHECK(outer->spans()[0].name == "outer");
  CHECK(outer->spans()[0].end_us >= outer->spans()[0].begin_us);  // a scope ends its span in its own timeline
  CHECK(inner->spans()[0].name == "inner");
}
