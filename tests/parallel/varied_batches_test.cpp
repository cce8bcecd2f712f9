// Batches of one engine that differ in length or in address: each step has the same bits as without an arena and
// without CUDA graphs, independent of earlier steps.
#include <vector>

#include "libtrain/profile/timeline.h"
#include "parallel/for_tests.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kLong = 16, kShort = 7;

struct Kind {
  Size seq;
  bool on_cpu = true;   // otherwise on the engine's device
  bool traced = false;  // a traced step is no graph
};

Tensor on_device(const Tensor& values) {
  if (!values.defined()) return {};
  const Tensor there = Tensor::empty(values.shape(), values.dtype(), test_device());
  copy(there, values);
  return there;
}

struct Losses {
  Curve curve;
  Size graphs = 0;
};

Losses train(const Strategy& strategy, const std::vector<Kind>& kinds, bool arena, bool graph) {
  nn::Gpt2 model(small_spec("gpt-tiny"));
  std::optional<parallel::SeparateAllocationScope> separate;
  if (!arena) separate.emplace();
  Engine engine(model, ranks(), {.strategy = strategy, .deterministic = Determinism::on}, AdamW{.lr = 1e-3f},
                {.micro_batch = 2, .accum = 2, .seq = kLong, .device = test_device(), .cuda_graph = graph});
  const auto batch_of = [&](const Kind& kind, Size step) {
    BatchShape shape = engine.batch_shape();
    shape.seq = kind.seq;
    const Batch batch = rows_of_step(shape, step, 256);
    return kind.on_cpu ? batch : batch.map(on_device);
  };
  engine.rehearse(batch_of({kLong}, 0), {});  // so that the arena keeps its place
  Losses losses;
  for (const Kind& kind : kinds) {
    const TimelineScope traced(kind.traced ? make_timeline(test_device()) : nullptr);
    const StepResult result = engine.step(batch_of(kind, static_cast<Size>(losses.curve.losses.size())));
    losses.curve.losses.push_back(result.loss());
    losses.curve.norms.push_back(result.norm());
  }
  losses.curve.state = state_checksum(engine, ranks());
  losses.graphs = parallel::EngineForTests::graph_launches(engine);
  return losses;
}

}  // namespace

TEST_CASE("batches by turns on the CPU and on the engine's device, long and short", "[parallel]") {
  const std::vector<Kind> kinds{{kLong}, {kLong, false}, {kShort, false}, {kShort}, {kLong}, {kLong, false}, {kShort}};
  for (const Strategy& strategy : kStrategies) {
    INFO(strategy.name);
    const Losses expected = train(strategy, kinds, false, false);
    CHECK(train(strategy, kinds, true, false).curve == expected.curve);
    if (test_device().type != DeviceType::cuda) continue;
    const Losses graphs = train(strategy, kinds, true, true);
    CHECK(graphs.curve == expected.curve);
    CHECK(graphs.graphs == 3);  // of the five from the third on, two lie on the device
  }
}

TEST_CASE("a graph reads the batches that came after longer ones without a graph", "[parallel]") {
  if (test_device().type != DeviceType::cuda) return;
  const Kind graph{kShort}, traced{.seq = kLong, .traced = true};
  const std::vector<Kind> kinds{graph, graph, graph, graph, traced, traced, graph, graph, graph};
  for (const Strategy& strategy : kStrategies) {
    INFO(strategy.name);
    const Losses graphs = train(strategy, kinds, true, true);
    CHECK(graphs.curve == train(strategy, kinds, false, false).curve);
    CHECK(graphs.graphs == 5);
  }
}
