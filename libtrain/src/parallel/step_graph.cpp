// Capture and launch.
#include "parallel/step_graph.h"

#include <optional>
#include <utility>

#include "core/cuda.h"

namespace lt {

StepGraph::StepGraph(Key key, const Stream& stream, const std::function<void()>& body) : key_(std::move(key)) {
  const CommLap before = take_comm_lap();
  graph_ = cuda::capture(stream.cuda().handle, [&] {
    PartClock clock(stream.device());
    const PartClockScope current(&clock);
    body();
    lap_ = clock.lap();
  });
  collectives_ = take_comm_lap();
  add_comm_lap(before);
}

void StepGraph::launch(const Stream& stream) const {
  cuda::launch(graph_.get(), stream.cuda().handle);
  if (PartClock* const clock = PartClock::current()) clock->append(lap_);
  add_comm_lap(collectives_);
}

}  // namespace lt
