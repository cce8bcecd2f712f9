// Trains a residual network to tell two spirals apart, in a loop of its own. Started again after a kill, it continues.
//   mpirun -n 2 own_loop zero3 runs/spirals 400
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/kernels/random.h"
#include "libtrain/libtrain.h"

namespace nn = lt::nn;
namespace ops = lt::ops;
using lt::Size, lt::Tensor;

constexpr Size kWidth = 32, kBlocks = 3, kGlobalBatch = 240, kSaveEvery = 50, kNormsEvery = 200;

// x + down(gelu(up(norm(x)))).
struct Block : nn::Module {
  explicit Block(Size width)
      : norm(add<nn::LayerNorm>("norm", {.width = width})),
        up(add<nn::Linear>("up", {.in = width, .out = 4 * width})),
        down(add<nn::Linear>("down", {.in = 4 * width, .out = width})) {}
  Tensor forward(const Tensor& x) const { return down(ops::gelu(up(norm(x))), x); }
  nn::LayerNorm& norm;
  nn::Linear &up, &down;
};

struct Network : nn::Model {
  // Units run in the order in which they are made.
  Network() : first(add_unit<nn::Linear>("first", {.in = 2, .out = kWidth, .init = nn::Init::normal(1)})) {
    for (Size i = 0; i < kBlocks; ++i) blocks.push_back(&add_block<Block>("blocks." + std::to_string(i), kWidth));
    last = &add_unit<nn::Linear>("last", {.in = kWidth, .out = 2});
  }

  Tensor loss(const lt::Batch& batch) override {
    const auto embed = [](const nn::Linear& linear, const Tensor& points) { return linear(points); };
    const auto loss_of = [](const nn::Linear& linear, const Tensor& x, const Tensor& arms) {
      return nn::cross_entropy(linear(x), arms);
    };
    Tensor x = run(first, embed, batch.inputs);
    for (const Block* block : blocks) x = run(*block, &Block::forward, x);
    return run(*last, loss_of, x, batch.targets);
  }

  nn::Linear& first;
  std::vector<Block*> blocks;
  nn::Linear* last;
};

// Returns this rank's rows of the step that begins at sample `position`. Sample i is a pure function of i.
lt::Batch batch_at(Size position, const lt::BatchShape& shape) {
  const std::uint64_t key = lt::derive_key(7, "spirals");
  std::vector<float> points;
  std::vector<std::int32_t> arms;
  for (Size row = 0; row < shape.samples(); ++row) {
    const auto words = lt::philox(key, static_cast<std::uint64_t>(position + shape.sample_of(row)));
    const float radius = 0.1f + 0.9f * lt::uniform_from(words[0]);
    const int arm = static_cast<int>(words[1] & 1);
    const float angle =
        std::numbers::pi_v<float> * (4 * radius + static_cast<float>(arm) + 1.1f * lt::uniform_from(words[2]));
    points.push_back(radius * std::cos(angle));
    points.push_back(radius * std::sin(angle));
    arms.push_back(arm);
  }
  return {Tensor::from(points, {shape.samples(), 2}), Tensor::from(arms, {shape.samples()})};
}

int main(int argc, char** argv) {
  return lt::run_program(argc, argv, [&](const lt::World& world) {
    if (argc < 3) throw lt::UsageError("own_loop", "expected STRATEGY FOLDER [STEPS]");
    const std::string folder = argv[2];
    const Size steps = argc > 3 ? std::stol(argv[3]) : 400;
    if (kGlobalBatch % world.size() != 0) throw lt::UsageError("own_loop", "240 samples do not divide by the ranks");
    const lt::Watchdog watchdog(world);  // before the engine; it ends a run whose ranks wait for each other
    const lt::Group group = world.group(lt::kCpu);
    Network model;
    lt::Engine engine(model, group, {.strategy = lt::find_strategy(argv[1]), .recompute = lt::Recompute::full},
                      lt::AdamW{.weight_decay = 0.01f, .clip = 0.5f}, {.micro_batch = kGlobalBatch / world.size()});
    const lt::Schedule schedule{.decay = lt::Decay::cosine, .lr = 5e-3, .min_lr = 5e-4, .warmup = 20, .steps = steps};

    lt::State state = lt::load(engine, folder, group).value_or(lt::State());
    if (world.rank() == 0 && engine.steps_done() > 0) {
      std::printf("continuing after step %ld, best %s\n", engine.steps_done(), state["best"].c_str());
    }
    for (Size step = engine.steps_done() + 1; step <= steps; ++step) {
      engine.set_learning_rate(schedule.at(step));
      const lt::StepResult result = engine.step(batch_at(engine.samples_done(), engine.batch_shape()));
      const float loss = result.loss(), norm = result.norm();  // equal on all ranks
      if (!std::isfinite(loss) || !std::isfinite(norm)) throw lt::NonFiniteError("step " + std::to_string(step));
      if (state["best"].empty() || loss < std::stof(state["best"])) state["best"] = std::to_string(loss);
      if (world.rank() == 0 && (step % 10 == 0 || step == steps)) std::printf("step %ld loss %.4f\n", step, loss);
      if (step % kNormsEvery == 0) {
        for (const auto& [parameter, value] : engine.gradient_norms()) {  // a collective: every rank calls it
          if (world.rank() == 0) std::printf("  norm of %-20s %.6f\n", parameter.c_str(), value);
        }
      }
      if (step % kSaveEvery == 0 || step == steps) lt::save(engine, folder, group, {.state = state});
    }
    if (world.rank() == 0) std::printf("%ld steps done, best %s\n", engine.steps_done(), state["best"].c_str());
    return 0;
  });
}
