// Late streams and late ranks. If one sleeps before it gathers, reduces, exchanges, transforms or updates, everything
// that depends on it waits, so the bits stay the same.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
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

// Every strategy, and a hybrid one of an elastic run, whose replicas add after every micro-batch.
std::vector<ParallelOptions> layouts() {
  std::vector<ParallelOptions> all;
  for (const Strategy& strategy : kStrategies) all.push_back({.strategy = strategy, .deterministic = Determinism::on});
  if (ranks().size() > 1) {
    all.push_back(
        {.strategy = Strategy::zero2, .shard_size = ranks().size() / 2, .deterministic = Determinism::elastic});
  }
  return all;
}

// The points at which one stream after the other sleeps, and at last all of them together.
std::vector<std::vector<std::string>> delays(const Case& optimizer) {
  std::vector<std::vector<std::string>> sets;
  for (const std::string& point : optimizer.points) sets.push_back({point});
  sets.push_back(optimizer.points);
  return sets;
}

// LTRAIN_FAULT with the action at each of the points, in step 2 of the rank.
std::string faults_at(const std::vector<std::string>& points, int rank, const std::string& action) {
  std::string faults;
  for (const std::string& point : points) {
    faults += (faults.empty() ? "" : ",") + point + ":" + std::to_string(rank) + ":2:" + action;
  }
  return faults;
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
        for (const std::vector<std::string>& points : delays(optimizer)) {
          for (const int rank : std::set{0, ranks().size() - 1}) {
            const std::string faults = faults_at(points, rank, "device-sleep=0.05");
            const ArmedFault fault(faults);
            INFO(strategy.name << " recompute " << static_cast<int>(recompute) << (fp8 ? " fp8, " : ", ")
                               << optimizer.name << ", " << faults);
            CHECK(curve(group, parallel, optimizer.groups, fp8) == expected);
            const bool has_any = std::ranges::any_of(points, [&](auto& point) { return has_point(point, strategy); });
            if (world().rank() == rank) CHECK((device::fault_hits() > 0) == has_any);
          }
        }
      }
    }
  }
}

// The host of one rank sleeps: before it waits for each gather, reduction and exchange, before and after the forward
// pass, and before the update, for about as long as a pass takes. On a GPU its compute stream then runs dry, and the
// streams beside it do not.
TEST_CASE("a rank that comes late changes no bit", "[parallel]") {
  if (ranks().size() == 1) return;  // nothing waits for it
  constexpr int kMostWaits = 64;
  for (const ParallelOptions& parallel : layouts()) {
    for (const Case& optimizer : cases()) {
      const Curve expected = curve(ranks(), parallel, optimizer.groups, false);
      // A fault strikes once, so each wait takes one of its own.
      const std::vector<std::string> waits(kMostWaits, "collective");
      std::vector<std::string> all = waits;
      all.insert(all.end(), {"forward", "backward"});
      for (const std::vector<std::string>& points : {{"forward"}, {"backward"}, waits, all}) {
        for (const int rank : std::set{0, ranks().size() - 1}) {
          const ArmedFault fault(faults_at(points, rank, "sleep=0.003") +
                                 (points == all ? "," + faults_at({"optimizer"}, rank, "device-sleep=0.003") : ""));
          INFO(parallel.strategy.name << " " << optimizer.name << ", " << points.size() << " points from "
                                      << points.front() << " on, rank " << rank);
          CHECK(curve(ranks(), parallel, optimizer.groups, false) == expected);
          if (world().rank() != rank) continue;
          const bool waits_too = points.front() == "collective";
          CHECK(device::fault_hits() > (waits_too ? 5 : 0));
          CHECK(device::fault_hits() < kMostWaits);
        }
      }
    }
  }
}

TEST_CASE("a loss that is read after the next step is that of its step", "[parallel]") {
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  for (const bool graph : {false, true}) {
    if (graph && test_device().type != DeviceType::cuda) continue;
    const auto losses = [&](bool reads_late) {
      const auto model = nn::make_transformer(spec);
      const EngineOptions options{.micro_batch = 2, .seq = 16, .device = test_device(), .cuda_graph = graph};
      Engine engine(*model, ranks(), {.deterministic = Determinism::on}, AdamW{.lr = 1e-2f}, options);
      std::vector<float> losses;
      std::optional<StepResult> last;
      const auto read = [&] {
        losses.push_back(last->loss()), losses.push_back(last->norm());
        last.reset();
      };
      for (Size step = 0; step < 6; ++step) {
        const StepResult result = engine.step(rows_of_step(engine.batch_shape(), step, spec.vocab));
        if (last) read();
        last = result;
        if (!reads_late) read();
      }
      if (last) read();
      CHECK(parallel::EngineForTests::graph_launches(engine) == (graph ? 4 : 0));
      return losses;
    };
    const std::vector<float> expected = losses(false);
    CHECK(losses(true) == expected);
    CHECK(std::set<float>(expected.begin(), expected.end()).size() == expected.size());
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
