// Elastic runs: one, two and four ranks give the same bits. The four ranks of this program are also two groups of two,
// or four groups of one, each of which trains.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "examples/adder.h"
#include "libtrain/optim/optimizer.h"
#include "libtrain/parallel/engine.h"
#include "parallel/for_tests.h"
#include "parallel/partial_sums.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"
#include "test_main/tree_sum.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kSteps = 4, kMicroBatch = 2, kSeq = 16;

enum class Kind { adamw, muon, narrow };  // narrow: moments in bf16, and without masters where the weights are bf16
enum class Targets { all, ignored, documents };
enum class Compute { f32, bf16, f16, fp8 };
using enum Recompute;

struct Layout {
  int ranks;
  Strategy strategy;
  Recompute recompute;
  bool is_hybrid = false;  // half of the ranks share a shard
};

struct Case {
  const char* model;  // a preset, or "adder": a model of a program's own
  Compute dtype;
  Kind optimizer;
  bool lora, dropout;
  Targets targets;
  Size micro_batches;  // of the global batch
  DType reduce_dtype;
  std::vector<Layout> layouts;  // whose bits are equal
};

constexpr Layout hybrid(int ranks, Recompute recompute) { return {ranks, Strategy::zero3, recompute, true}; }

// Every two of these choices meet in a row: model, dtype, optimizer, adapters, dropout, targets and micro-batches with
// each other and with each layout; ranks, strategy, recomputation and the wire's dtype with each other. Exceptions:
// adapters meet neither Muon nor FP8, the own model has neither dropout nor ignored targets, and f16 has one row.
// clang-format off
const std::vector<Case> kCases = {
    {"gpt-tiny", Compute::f32, Kind::muon, false, true, Targets::documents, 8, DType::f32,
     {{2, Strategy::zero1, none}, hybrid(4, full)}},
    {"llama-tiny", Compute::bf16, Kind::narrow, true, false, Targets::ignored, 12, DType::bf16,
     {hybrid(2, selective), {4, Strategy::zero2, none}}},
    {"qwen3", Compute::fp8, Kind::adamw, false, false, Targets::all, 8, DType::bf16,
     {{1, Strategy::ddp, none}, {2, Strategy::zero3, full}, {4, Strategy::zero1, selective}}},
    {"adder", Compute::bf16, Kind::muon, false, false, Targets::all, 12, DType::f32,
     {{1, Strategy::ddp, selective}, {2, Strategy::zero2, full}, {4, Strategy::zero3, none}}},
    {"qwen3", Compute::f32, Kind::adamw, true, true, Targets::ignored, 12, DType::f32,
     {{1, Strategy::zero1, full}, {2, Strategy::ddp, full}, hybrid(4, none)}},
    {"llama-tiny", Compute::f32, Kind::narrow, true, true, Targets::all, 8, DType::bf16,
     {{1, Strategy::zero3, selective}, {2, Strategy::zero1, none}, {4, Strategy::ddp, none}}},
    {"gpt-tiny", Compute::bf16, Kind::adamw, true, false, Targets::documents, 12, DType::bf16,
     {{1, Strategy::zero3, none}, {2, Strategy::ddp, selective}, {4, Strategy::zero2, full}}},
    {"gpt-tiny", Compute::fp8, Kind::narrow, false, true, Targets::ignored, 12, DType::bf16,
     {{1, Strategy::zero2, none}, hybrid(2, selective), {4, Strategy::zero3, full}}},
    {"qwen3", Compute::bf16, Kind::muon, false, true, Targets::ignored, 8, DType::f32,
     {{1, Strategy::zero1, selective}, {2, Strategy::zero2, selective}, {4, Strategy::zero1, selective}}},
    {"adder", Compute::f32, Kind::adamw, false, false, Targets::all, 8, DType::f32,
     {{1, Strategy::zero1, selective}, hybrid(2, selective), {4, Strategy::ddp, full}}},
    {"llama-tiny", Compute::fp8, Kind::muon, false, true, Targets::documents, 8, DType::bf16,
     {{1, Strategy::zero2, full}, {2, Strategy::zero1, selective}, {4, Strategy::zero3, full}}},
    {"qwen3", Compute::f32, Kind::narrow, false, true, Targets::documents, 12, DType::bf16,
     {{1, Strategy::zero2, full}, {2, Strategy::ddp, selective}, {4, Strategy::zero3, none}}},
    {"gpt-tiny", Compute::f16, Kind::adamw, false, false, Targets::all, 12, DType::bf16,
     {{1, Strategy::zero1, none}, {4, Strategy::zero3, full}}},
    {"llama-tiny", Compute::bf16, Kind::adamw, false, false, Targets::all, 8, DType::f32,
     {hybrid(2, full), {4, Strategy::zero1, none}}},
    {"adder", Compute::bf16, Kind::narrow, false, false, Targets::all, 12, DType::bf16,
     {{1, Strategy::zero2, none}, hybrid(4, selective)}},
};
// clang-format on

bool is_own_model(const Case& row) { return row.model == std::string("adder"); }

std::unique_ptr<nn::Model> model_of(const Case& row) {
  if (is_own_model(row)) return std::make_unique<adder::Adder>();
  nn::TransformerSpec spec;
  if (row.model == std::string("qwen3")) {
    spec = {.family = "qwen3",
            .layers = 2,
            .heads = 4,
            .kv_heads = 2,
            .head_dim = 16,
            .width = 64,
            .ffn = 96,
            .vocab = 256,
            .max_seq = kSeq};
  } else {
    spec = small_spec(row.model);
  }
  if (row.dropout) spec.dropout = 0.1;
  if (row.lora) spec.lora = {.rank = 4};
  return nn::make_transformer(nn::with_defaults(spec));
}

OptimizerGroups optimizers_of(const Case& row) {
  const bool narrow = row.optimizer == Kind::narrow;
  const AdamW adamw{.state_dtype = narrow ? DType::bf16 : DType::f32,
                    .masters = !narrow || row.dtype == Compute::f32 || row.dtype == Compute::f16};
  OptimizerGroups groups({{"*", narrow ? averaged(adamw, 0.9) : Optimizer(adamw)}}, 1e-2, 0.5);
  if (row.optimizer == Kind::muon) groups.groups.insert(groups.groups.begin(), {"*", Muon{}});
  if (row.lora) groups.trained = {"*lora*"};
  return groups;
}

Batch batch_of(const Case& row, const BatchShape& shape, Size step) {
  if (is_own_model(row)) return adder::make_batch(shape, step * shape.global_samples());
  const auto rows = row.targets == Targets::documents ? documents_of_step
                    : row.targets == Targets::ignored ? partly_ignored_rows
                                                      : rows_of_step;
  return rows(shape, step, 256);
}

struct Trained {
  Curve curve;
  double evaluated = 0;
  bool operator==(const Trained&) const = default;
};

// On a GPU, as a graph or not.
Trained train(const Case& row, const Layout& layout, bool as_graph = false) {
  const Group group = ranks().split([&](int rank) { return rank / layout.ranks; }, "some");
  const ParallelOptions parallel{.strategy = layout.strategy,
                                 .shard_size = layout.is_hybrid ? layout.ranks / 2 : 0,
                                 .recompute = layout.recompute,
                                 .reduce_dtype = row.reduce_dtype,
                                 .deterministic = Determinism::elastic};
  const EngineOptions options{.micro_batch = kMicroBatch,
                              .accum = row.micro_batches / layout.ranks,
                              .seq = is_own_model(row) ? 1 : kSeq,
                              .dtype = row.dtype == Compute::f32   ? DType::f32
                                       : row.dtype == Compute::f16 ? DType::f16
                                                                   : DType::bf16,
                              .device = test_device(),
                              .cuda_graph = as_graph && test_device() != kCpu,
                              .fp8 = row.dtype == Compute::fp8,
                              .ignored_targets = row.targets == Targets::ignored};
  const std::unique_ptr<nn::Model> model = model_of(row);
  Engine engine(*model, group, parallel, optimizers_of(row), options);
  Trained trained;
  for (Size step = 0; step < kSteps; ++step) {
    const StepResult result = engine.step(batch_of(row, engine.batch_shape(), step));
    trained.curve.losses.push_back(result.loss()), trained.curve.norms.push_back(result.norm());
  }
  CHECK(parallel::EngineForTests::graph_launches(engine) == (options.cuda_graph ? kSteps - 2 : 0));
  trained.curve.state = state_checksum(engine, group);
  // Batch i of an evaluation goes to rank i of the group.
  MeanLoss mean;
  for (int first = 0; first < 4; first += group.size()) {
    const BatchShape own{.micro_batch = kMicroBatch, .seq = options.seq, .rank = first + group.rank(), .ranks = 4};
    for (const BatchLoss& loss : engine.evaluate(batch_of(row, own, 1000))) mean.add(loss);
  }
  trained.evaluated = mean.value();
  return trained;
}

}  // namespace

TEST_CASE("elastic: rank counts, strategies and recomputation give the same bits", "[parallel]") {
  for (const Case& row : kCases) {
    const Trained expected = train(row, row.layouts[0]);
    CHECK(std::isfinite(expected.curve.norms[0]));
    CHECK(expected.curve.losses[0] != expected.curve.losses.back());
    for (std::size_t i = 1; i < row.layouts.size(); ++i) {
      const Layout& layout = row.layouts[i];
      INFO(row.model << " of row " << &row - kCases.data() << " on " << layout.ranks << " ranks, "
                     << layout.strategy.name << (layout.is_hybrid ? ", hybrid" : ""));
      CHECK(train(row, layout, i % 2 == 1) == expected);
    }
  }
}

// The gradients of ranks are then summed where they are, without partial sums.
TEST_CASE("elastic: a micro-batch on each of four ranks", "[parallel]") {
  for (const Size micro_batches : {1, 4}) {
    Case row = kCases[1];
    row.micro_batches = micro_batches;
    const Trained expected = train(row, {1, Strategy::ddp, none});
    for (const Strategy& strategy : kStrategies) {
      INFO(strategy.name << ", " << micro_batches);
      CHECK(train(row, {static_cast<int>(micro_batches), strategy, none}) == expected);
    }
    if (micro_batches > 1) CHECK(train(row, hybrid(4, none)) == expected);
  }
}

TEST_CASE("elastic: micro-steps are added as a tree", "[parallel]") {
  int differ = 0;  // from a running sum
  for (Size count = 1; count <= 33; ++count) {
    std::vector<float> values;
    for (Size i = 0; i < count; ++i) values.push_back(1.0f / static_cast<float>(3 + i * i));
    const auto sum_of = [&](parallel::PartialSums sums) {
      sums.end_in(Tensor::zeros({1}, DType::f32));
      for (Size i = 0; i < count; ++i) {
        const auto place = sums.place_of(i);
        float sum = values[static_cast<std::size_t>(i)];
        for (const Tensor& addend : place.addends) sum += *addend.data<float>();
        *place.sum.data<float>() = sum;
      }
      return *sums.sum().data<float>();
    };
    const float expected = tree_sum(values.data(), static_cast<int>(count));
    for (const bool shares_sum : {false, true}) CHECK(sum_of({count, 1, kCpu, shares_sum}) == expected);
    const float in_order = std::accumulate(values.begin(), values.end(), 0.0f);
    CHECK(sum_of({}) == in_order);
    differ += in_order != expected;
  }
  CHECK(differ > 10);
}

TEST_CASE("elastic: the number of ranks is a power of two", "[parallel]") {
  CHECK(elastic_rank_counts(12) == std::vector{1, 2, 4});
  CHECK(elastic_rank_counts(7) == std::vector{1});
  CHECK(elastic_rank_counts(1024).back() == kMostElasticRanks);
  const Group three = Group::meta(0, 3);
  const auto model = nn::make_transformer(small_spec("gpt-tiny"));
  CHECK_THROWS_WITH(Engine(*model, three, {.deterministic = Determinism::elastic}, AdamW{}, {.device = kMeta}),
                    "ranks: expected a power of two up to 64 in an elastic run, got 3");
}
