// Captures and launches the graph of a step.
#include "parallel/step_graph.h"

#include <optional>
#include <utility>

#include "comm/collective_log.h"
#include "device/cuda.h"
#include "device/progress.h"
#include "kernels/graph_memsets.h"

namespace lt::parallel {

StepGraph::StepGraph(Key key, const Stream& stream, const std::function<void()>& body) : key_(std::move(key)) {
  const ContextMemberScope<&Context::graph_calls> calls(&calls_);
  collectives_ = std::make_shared<const CommLap>(comm::comm_lap_of([&] {
    graph_ = device::cuda::capture(
        stream.cuda(),
        [&] {
          profile::ActivityClock clock(stream.device());
          const profile::ActivityClockScope current(&clock);
          body();
          lap_ = clock.lap();
        },
        kernels::replace_small_memsets);
  }));
}

void StepGraph::launch(const Stream& stream) const {
  device::count_launch(stream);
  calls_.rewind(stream);
  device::cuda::launch(graph_.get(), stream.cuda());
  if (profile::ActivityClock* const clock = Context::current().clock) clock->append(lap_);
  comm::repeat_comm_lap(collectives_);
}

}  // namespace lt::parallel
