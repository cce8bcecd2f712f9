// Buffers of modules. A model with buffers gives the same bits as a model that makes its constants in each pass: under
// every strategy, with recomputation, in bf16 and as a CUDA graph. Its memory is as planned.
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda.h"
#include "libtrain/data/batch_source.h"
#include "libtrain/error.h"
#include "libtrain/nn/layers.h"
#include "libtrain/run/trainer.h"
#include "memory/workspace.h"
#include "parallel/for_tests.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kVocab = 19, kWidth = 24, kSeq = 11;

bool on_cuda() { return test_device().type == DeviceType::cuda; }

// sin and cos of the position at falling frequencies (Vaswani et al. 2017, section 3.5).
Tensor table_of_positions() {
  std::vector<double> values;
  for (Size t = 0; t < kSeq; ++t) {
    for (Size c = 0; c < kWidth; ++c) {
      const double angle = static_cast<double>(t) / std::pow(1e4, static_cast<double>(c / 2 * 2) / kWidth);
      values.push_back(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return Tensor::from(values, {kSeq, kWidth});
}
// 1 where a token may look.
Tensor causal_mask() {
  std::vector<std::int32_t> values;
  for (Size i = 0; i < kSeq * kSeq; ++i) values.push_back(i % kSeq <= i / kSeq ? 1 : 0);
  return Tensor::from(values, {kSeq, kSeq});
}
Tensor very_low() { return Tensor::from(std::vector<float>{-1e4f}, {1}); }

// A value that a pass makes anew, for comparison.
Tensor made_in_pass(const Tensor& values, const Tensor& like) {
  const bool floating = is_floating(values.dtype());
  const Tensor cast = Tensor::empty(values.shape(), floating ? like.dtype() : values.dtype(), kCpu);
  copy(cast, values);
  const Tensor there = Tensor::empty(cast.shape(), cast.dtype(), like.device());
  if (!like.device().is_meta()) copy(there, cast);
  return there;
}

// A causal model of one attention head. `in_pass`: without buffers.
struct Attending : nn::Model {
  struct Embed : nn::Module {
    explicit Embed(bool in_pass)
        : table(add<nn::Embedding>("table", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})),
          positions(in_pass ? nullptr : &add_buffer("positions", table_of_positions())) {}
    Tensor forward(const Tensor& ids) const {
      const Tensor x = table(ids);
      return ops::add(x, positions != nullptr ? positions->tensor() : made_in_pass(table_of_positions(), x));
    }
    nn::Embedding& table;
    nn::Buffer* positions;
  };
  struct Attention : nn::Module {
    explicit Attention(bool in_pass)
        : q(add<nn::Linear>("q", {.in = kWidth, .out = kWidth, .bias = false, .init = nn::Init::normal(0.3f)})),
          v(add<nn::Linear>("v", {.in = kWidth, .out = kWidth, .init = nn::Init::normal(0.3f)})),
          mask(in_pass ? nullptr : &add_buffer("mask", causal_mask())),
          low(in_pass ? nullptr : &add_buffer("low", very_low())) {}
    Tensor forward(const Tensor& x) const {
      const Tensor scores = ops::matmul(q(x), ops::transpose(x, 1, 2));
      const Tensor seen = ops::where(mask != nullptr ? mask->tensor() : made_in_pass(causal_mask(), x), scores,
                                     low != nullptr ? low->tensor() : made_in_pass(very_low(), x));
      return ops::add(x, ops::gelu(ops::matmul(ops::softmax(seen), v(x))));
    }
    nn::Linear &q, &v;
    nn::Buffer *mask, *low;
  };
  struct Head : nn::Module {
    Head() : linear(add<nn::Linear>("linear", {.in = kWidth, .out = kVocab, .init = nn::Init::normal(0.1f)})) {}
    Tensor forward(const Tensor& x, const Tensor& targets) const { return nn::cross_entropy(linear(x), targets); }
    nn::Linear& linear;
  };

  explicit Attending(bool in_pass = false)
      : embed(add_unit<Embed>("embed", in_pass)),
        first(add_block<Attention>("blocks.0", in_pass)),
        second(add_block<Attention>("blocks.1", in_pass)),
        head(add_unit<Head>("head")) {}

  Tensor loss(const Batch& batch) override {
    Tensor x = run(embed, &Embed::forward, batch.inputs);
    x = run(first, &Attention::forward, x);
    x = run(second, &Attention::forward, x);
    return run(head, &Head::forward, x, batch.targets);
  }

  Embed& embed;
  Attention &first, &second;
  Head& head;
};

std::vector<std::int32_t> integers(const Tensor& tensor) {
  const Tensor here = Tensor::empty(tensor.shape(), DType::i32, kCpu);
  copy(here, tensor);
  return {here.data<std::int32_t>(), here.data<std::int32_t>() + here.elements()};
}

EngineOptions step_options_of(DType dtype = DType::f32, bool graph = false) {
  return {.micro_batch = 3, .accum = 2, .seq = kSeq, .dtype = dtype, .device = test_device(), .cuda_graph = graph};
}

Curve train(nn::Model& model, const ParallelOptions& parallel, const EngineOptions& options) {
  Engine engine(model, ranks(), parallel, AdamW{.lr = 3e-3f}, options);
  Curve curve;
  for (Size step = 0; step < 6; ++step) {
    const StepResult result = engine.step(rows_of_step(engine.batch_shape(), step, kVocab));
    curve.losses.push_back(result.loss()), curve.norms.push_back(result.norm());
  }
  CHECK(parallel::EngineForTests::graph_launches(engine) == (options.cuda_graph ? 4 : 0));
  curve.state = state_checksum(engine, ranks());
  return curve;
}

// Steps of a run, of which a resumed one makes the rest.
class Rows final : public BatchSource {
 public:
  explicit Rows(const BatchShape& shape) : shape_(shape) {}
  Batch next() override { return rows_of_step(shape_, step_++, kVocab); }
  void seek(Size samples) override { step_ = samples / shape_.global_samples(); }
  Size tokens() const override { return 0; }

 private:
  BatchShape shape_;
  Size step_ = 0;
};

TrainerOptions run_options(const std::string& dir, const char* strategy, Size steps) {
  return {.parallel = {.strategy = find_strategy(strategy), .recompute = Recompute::full},
          .train = {.steps = steps,
                    .micro_batch = 3,
                    .seq = kSeq,
                    .dtype = Precision::bf16,
                    .device = on_cuda() ? DeviceType::cuda : DeviceType::cpu,
                    .deterministic = Determinism::on},
          .optim = {.lr = 3e-3, .schedule = Decay::constant},
          .checkpoint = {.every = 2},
          .run = {.dir = dir}};
}

}  // namespace

TEST_CASE("buffers: the bits of constants made in each pass, under every strategy and recomputation", "[parallel]") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Attending in_pass(true);
    std::optional<parallel::SeparateAllocationScope> separate;
    separate.emplace();  // this model makes its constants on the CPU first, in rehearsals too
    const Curve expected = train(in_pass, {.deterministic = Determinism::on}, step_options_of(dtype));
    separate.reset();
    CHECK(expected.losses.back() < expected.losses.front());
    for (const Strategy& strategy : kStrategies) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        for (const bool graph : {false, true}) {
          if (graph && !on_cuda()) continue;
          INFO(strategy.name << " recompute " << static_cast<int>(recompute) << " " << dtype_name(dtype)
                             << (graph ? ", as a graph" : ""));
          Attending model;
          const ParallelOptions parallel{
              .strategy = strategy, .recompute = recompute, .deterministic = Determinism::on};
          CHECK(train(model, parallel, step_options_of(dtype, graph)) == expected);
        }
      }
    }
  }
}

TEST_CASE("buffers: on the engine's device, floating ones in its dtype, and no part of its state", "[parallel]") {
  Attending model;
  Engine engine(model, ranks(), {.strategy = Strategy::zero3}, AdamW{}, step_options_of(DType::bf16));
  const Batch batch = rows_of_step(engine.batch_shape(), 0, kVocab);
  engine.step(batch);
  const Tensor positions = model.embed.positions->tensor(), mask = model.second.mask->tensor();
  CHECK(positions.device() == test_device());
  CHECK(positions.dtype() == DType::bf16);
  CHECK(!positions.requires_grad());
  CHECK(mask.dtype() == DType::i32);
  CHECK(integers(mask) == integers(causal_mask()));
  const std::vector<double> exact = table_of_positions().to_vector<double>(), rounded = positions.to_vector<double>();
  for (std::size_t i = 0; i < exact.size(); ++i) CHECK(rounded[i] == bf16(static_cast<float>(exact[i])));
  CHECK(engine.shard_map().parameters.size() == model.all_parameters().size());
  // The addresses stay, as a graph requires.
  const void* const address = positions.data();
  engine.rehearse(batch, {});
  engine.step(batch);
  CHECK(model.embed.positions->tensor().data() == address);
}

TEST_CASE("buffers: plan = run, by owner, and Trainer's run resumes without them in its checkpoints", "[parallel]") {
  const PlanMachine machine{.device = on_cuda() ? "h200" : "cpu"};
  if (on_cuda()) memory::make_workspace(test_device().index);
  // Three tables, with their alignment: positions in bf16, a mask of i32 in each block, and one number there.
  const auto aligned = [](Size bytes) {
    return (bytes + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
  };
  const Size constants = aligned(kSeq * kWidth * 2) + 2 * (aligned(kSeq * kSeq * 4) + aligned(2));
  std::optional<std::vector<double>> expected;
  for (const Strategy& strategy : kStrategies) {
    INFO(strategy.name);
    const TempFolder folder;
    const std::string name(strategy.name), dir = world().group().broadcast_bytes(folder / "run", 0);
    const Size live = memory_live(test_device()).total - memory::workspace_bytes(test_device().type);
    std::vector<double> losses;
    for (const Size steps : {3, 5}) {  // the second goes on from step 3
      const TrainerOptions options = run_options(dir, name.c_str(), steps);
      const Plan plan = lt::plan([] { return std::make_unique<Attending>(); }, options, world().size(), machine);
      CHECK(plan.ledger.of(MemoryOwner::constants) == constants);
      CHECK(to_json(plan).find("\"constants\": " + std::to_string(constants)) != std::string::npos);
      Attending model;
      Trainer trainer(world(), model, options);
      Rows rows(trainer.batch_shape());
      const ExitCode code = trainer.train(rows, [&](const TrainedStep& step) { losses.push_back(step.loss); });
      CHECK(code == ExitCode::ok);
      CHECK(memory_peak(test_device()).total - live == plan.peak_bytes);
      CHECK(memory_peak(test_device()).of(MemoryOwner::constants) == constants);
    }
    CHECK(losses.size() == 5);
    if (!expected) expected = losses;
    CHECK(losses == *expected);
  }
}
