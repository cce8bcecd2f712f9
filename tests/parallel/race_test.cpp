// Streams that come late: where one waits before it gathers, reduces or updates, all that depends on it must wait for
// it, so the bits are the same.
#include <cstdlib>

#include "core/fault.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kSteps = 3;

// Restores what LTRAIN_FAULT was, also where a check throws.
struct Armed {
  explicit Armed(const std::string& fault) {
    ::setenv("LTRAIN_FAULT", fault.c_str(), 1);
    arm_fault(world().rank());
  }
  ~Armed() {
    ::unsetenv("LTRAIN_FAULT");
    arm_fault(world().rank());
  }
};

Curve curve(const ParallelOptions& parallel, bool graph) {
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  const StepOptions options{.micro_batch = 2, .accum = 2, .seq = 16, .dtype = DType::bf16, .cuda_graph = graph};
  return train_curve(spec, ranks(), parallel, options, kSteps);
}

}  // namespace

TEST_CASE("a stream that comes late changes no bit", "[parallel]") {
  for (const Strategy& strategy : kStrategies) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      const ParallelOptions parallel{.strategy = strategy, .recompute = recompute, .deterministic = true};
      const Curve expected = curve(parallel, false);
      for (const char* point : {"gather", "reduce", "optimizer"}) {
        for (const int rank : {0, ranks().size() - 1}) {
          const Armed fault(std::string(point) + ":" + std::to_string(rank) + ":2:device-sleep");
          INFO(strategy.name << " recompute " << static_cast<int>(recompute) << ", " << point << " of rank " << rank);
          CHECK(curve(parallel, false) == expected);
          const bool exchanges = device().type == DeviceType::cuda && ranks().size() > 1;
          const bool reached = exchanges || std::string(point) == "optimizer";
          if (world().rank() == rank) CHECK((fault_hits() > 0) == reached);
        }
      }
    }
  }
}

TEST_CASE("evaluations between the launches of a graph see the parameters of the step before", "[parallel]") {
  if (device().type != DeviceType::cuda) return;
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  for (const Strategy& strategy : kStrategies) {
    const auto losses = [&](bool graph, Size every) {
      const auto model = nn::make_transformer(spec);
      const StepOptions options{.micro_batch = 2, .seq = 16, .device = device(), .cuda_graph = graph};
      Engine engine(*model, ranks(), {.strategy = strategy, .deterministic = true}, {.lr = 1e-2f}, options);
      std::vector<double> losses;
      for (Size step = 0; step < 8; ++step) {
        losses.push_back(engine.step(rows_of_step(engine.batch_shape(), step, spec.vocab)).loss());
        if (step % every == every - 1) {
          losses.push_back(engine.evaluate(rows_of_step(engine.batch_shape(), 99, spec.vocab)).item());
        }
      }
      CHECK(engine.graph_launches() == (graph ? 6 : 0));  // two steps are eager
      return losses;
    };
    for (const Size every : {1, 2, 3}) {
      INFO(strategy.name << ", an evaluation every " << every << " steps");
      CHECK(losses(true, every) == losses(false, every));
    }
  }
}

TEST_CASE("a step as a CUDA graph gives the same bits", "[parallel]") {
  if (device().type != DeviceType::cuda) return;
  const nn::TransformerSpec specs[] = {small_spec("gpt-tiny"), small_spec("llama-tiny")};
  for (const nn::TransformerSpec& spec : specs) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Strategy& strategy : kStrategies) {
        for (const Recompute recompute : {Recompute::none, Recompute::full}) {
          const ParallelOptions parallel{.strategy = strategy, .recompute = recompute, .deterministic = true};
          StepOptions options{.micro_batch = 2, .accum = 2, .seq = 16, .dtype = dtype};
          const Curve expected = train_curve(spec, ranks(), parallel, options, 8);
          options.cuda_graph = true;
          INFO(spec.family << " " << strategy.name << " recompute " << static_cast<int>(recompute) << " "
                           << dtype_name(dtype));
          CHECK(train_curve(spec, ranks(), parallel, options, 8) == expected);
        }
      }
    }
  }
}
