// Late streams. If one sleeps before it gathers, reduces, exchanges, transforms or updates, everything that depends on
// it waits, so the bits stay the same.
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda.h"
#include "parallel/for_tests.h"
#include "parallel/synthetic.h"
#include "test_main/armed_fault.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kSteps = 3;

struct Case {
  const char* name;
  OptimizerGroups groups;
  std::vector<std::string> points;  // reached in a step
};

std::vector<Case> cases() {
  return {
      {"AdamW", AdamW{.lr = 1e-3f}, {"gather", "reduce", "hand-over", "add", "optimizer"}},
      {"Muon", OptimizerGroups({{"*", Muon()}, {"*", AdamW()}}, 1e-3, 1.0), {"transform", "all_to_all", "optimizer"}}};
}

Curve curve(const Group& group, const ParallelOptions& parallel, const OptimizerGroups& groups, bool fp8) {
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  const EngineOptions options{.micro_batch = 2, .accum = 2, .seq = 16, .dtype = DType::bf16, .fp8 = fp8};
  return train_curve(spec, group, parallel, options, kSteps, groups);
}

// Whether a step on this rank reaches a point at which its stream can sleep.
bool has_point(const std::string& point, const Strategy& strategy) {
  if (point == "optimizer" || point == "transform") return true;
  const bool exchanges = test_device().type == DeviceType::cuda && ranks().size() > 1;
  return exchanges && (point != "all_to_all" || strategy.optimizer == Placement::sharded);
}

}  // namespace

// With full recomputation in bf16 reductions of a block come in two to four slices, and have the bits of whole ones.
TEST_CASE("a stream that comes late changes no bit", "[parallel]") {
  const Group whole = ranks(), slices = ranks().duplicate_in_slices("slices", (Size{64} << 10) * ranks().size());
  for (const Strategy& strategy : kStrategies) {
    for (const auto& [recompute, fp8] :
         {std::pair{Recompute::none, false}, {Recompute::full, false}, {Recompute::full, true}}) {
      // The CPU has one stream, so it only shows which points a step reaches.
      if (test_device() == kCpu && (strategy != Strategy::zero3 || recompute != Recompute::none)) continue;
      const ParallelOptions parallel{.strategy = strategy, .recompute = recompute, .deterministic = Determinism::on};
      for (const Case& optimizer : cases()) {
        const Group& group = recompute == Recompute::full && !fp8 ? slices : whole;
        const Curve expected = curve(whole, parallel, optimizer.groups, fp8);
        for (const std::string& point : optimizer.points) {
          for (const int rank : std::set{0, ranks().size() - 1}) {
            const ArmedFault fault(point + ":" + std::to_string(rank) + ":2:device-sleep=0.05");
            INFO(strategy.name << " recompute " << static_cast<int>(recompute) << (fp8 ? " fp8, " : ", ")
                               << optimizer.name << ", " << point << " of rank " << rank);
            CHECK(curve(group, parallel, optimizer.groups, fp8) == expected);
            if (world().rank() == rank) CHECK((device::fault_hits() > 0) == has_point(point, strategy));
          }
        }
      }
    }
  }
}

TEST_CASE("evaluations between the launches of a graph see the parameters of the step before", "[parallel]") {
  if (test_device().type != DeviceType::cuda) return;
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  for (const Strategy& strategy : kStrategies) {
    const auto losses = [&](bool graph, Size every) {
      const auto model = nn::make_transformer(spec);
      const EngineOptions options{.micro_batch = 2, .seq = 16, .device = test_device(), .cuda_graph = graph};
      Engine engine(*model, ranks(), {.strategy = strategy, .deterministic = Determinism::on}, AdamW{.lr = 1e-2f},
                    options);
      std::vector<double> losses;
      for (Size step = 0; step < 8; ++step) {
        losses.push_back(engine.step(rows_of_step(engine.batch_shape(), step, spec.vocab)).loss());
        if (step % every == every - 1) {
          const Batch batch = rows_of_step(engine.batch_shape(), 99, spec.vocab);
          losses.push_back(mean_loss(engine.evaluate(batch)));
        }
      }
      CHECK(parallel::EngineForTests::graph_launches(engine) == (graph ? 6 : 0));  // two steps are eager
      return losses;
    };
    for (const Size every : {1, 2, 3}) {
      INFO(strategy.name << ", an evaluation every " << every << " steps");
      CHECK(losses(true, every) == losses(false, every));
    }
  }
}

TEST_CASE("a step as a CUDA graph gives the same bits", "[parallel]") {
  if (test_device().type != DeviceType::cuda) return;
  nn::TransformerSpec specs[] = {small_spec("gpt-tiny"), small_spec("llama-tiny")};
  specs[0].dropout = 0.1;
  for (const nn::TransformerSpec& spec : specs) {
    for (const auto& [dtype, fp8] :
         {std::pair{DType::f32, false}, {DType::f16, false}, {DType::bf16, false}, {DType::bf16, true}}) {
      for (const Strategy& strategy : kStrategies) {
        for (const Recompute recompute : {Recompute::none, Recompute::full}) {
          const ParallelOptions parallel{
              .strategy = strategy, .recompute = recompute, .deterministic = Determinism::on};
          for (const Case& optimizer : cases()) {
            EngineOptions options{.micro_batch = 2, .accum = 2, .seq = 16, .dtype = dtype, .fp8 = fp8};
            const Curve expected = train_curve(spec, ranks(), parallel, options, 8, optimizer.groups);
            options.cuda_graph = true;
            INFO(spec.family << " " << strategy.name << " recompute " << static_cast<int>(recompute) << " "
                             << dtype_name(dtype) << (fp8 ? " fp8 " : " ") << optimizer.name);
            CHECK(train_curve(spec, ranks(), parallel, options, 8, optimizer.groups) == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("a step beside a copy of the state runs without its graph, and its update waits for the copy", "[parallel]") {
  if (test_device().type != DeviceType::cuda) return;
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  for (const Strategy& strategy : kStrategies) {
    INFO(strategy.name);
    const auto losses = [&](bool graph, bool copies) {
      const auto model = nn::make_transformer(spec);
      const EngineOptions options{.micro_batch = 2, .seq = 16, .device = test_device(), .cuda_graph = graph};
      Engine engine(*model, ranks(), {.strategy = strategy, .deterministic = Determinism::on}, AdamW{.lr = 1e-2f},
                    options);
      const Tensor state = engine.shard_map().needed.front().values;
      const auto bytes = static_cast<std::size_t>(state.bytes());
      const std::shared_ptr<void> copy = device::cuda::allocate_pinned(test_device().index, state.bytes());
      const Stream compute = Stream::compute(test_device()), beside(test_device());
      std::vector<double> losses;
      std::vector<std::byte> expected;  // the expected contents of the copy in flight
      for (Size step = 0; step < 9; ++step) {
        losses.push_back(engine.step(rows_of_step(engine.batch_shape(), step, spec.vocab)).loss());
        if (!expected.empty()) {
          compute.synchronize();
          beside.synchronize();
          CHECK(std::memcmp(copy.get(), expected.data(), bytes) == 0);
          expected.clear();
        }
        if (!copies || step % 3 != 2) continue;
        expected.resize(bytes);
        device::cuda::copy(expected.data(), state.data(), state.bytes(), compute.cuda());
        compute.synchronize();
        device::cuda::sleep(beside.cuda(), std::chrono::milliseconds(100));
        device::cuda::copy(copy.get(), state.data(), state.bytes(), beside.cuda());
        engine.hold_update_for(beside);
      }
      CHECK(parallel::EngineForTests::graph_launches(engine) ==
            (graph ? (copies ? 5 : 7) : 0));  // two steps are eager, and two beside copies
      return losses;
    };
    const std::vector<double> expected = losses(false, false);
    CHECK(losses(true, false) == expected);
    CHECK(losses(true, true) == expected);
  }
}
