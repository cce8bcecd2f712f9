// A custom optimizer: Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms") on CPU ranks. A row
// names the states that it keeps and defines how a step updates a range. The engine shards it under any strategy, and
// checkpoints store its state by name.
//   mpirun -n 2 own_optimizer zero3 data/train.bin checkpoints
#include <cstdio>
#include <cstdlib>

#include "libtrain/libtrain.h"

namespace {

float sign(float x) { return static_cast<float>((x > 0) - (x < 0)); }

// c = beta1 m + (1 - beta1) g,  w -= lr (sign(c) + weight_decay w),  m = beta2 m + (1 - beta2) g.
lt::Optimizer lion(double lr, float beta1, float beta2, float weight_decay) {
  lt::Optimizer row{.name = "lion", .states = {"momentum"}, .lr = lr};
  row.update = [=](const lt::UpdateRange& range) {
    if (range.weights.device().is_meta()) return;  // a rehearsal: shapes without values
    const lt::StepNumbers& step = *range.numbers;
    if (step.skip != 0) return;
    float *const w = range.weights.data<float>(), *const m = range.states[0].data<float>();
    const float* const gradient = range.gradient.data<float>();
    for (lt::Size i = 0; i < range.weights.elements(); ++i) {
      const float g = step.gradient_scale * gradient[i], decay = i < range.decayed ? weight_decay : 0;
      w[i] -= step.lr * (sign(beta1 * m[i] + (1 - beta1) * g) + decay * w[i]);
      m[i] = beta2 * m[i] + (1 - beta2) * g;
    }
    if (range.copy.defined()) lt::copy(range.copy, range.weights);
  };
  return row;
}

int train(const lt::World& world, const char* strategy, const char* tokens, const char* checkpoints, lt::Size steps) {
  lt::nn::Gpt2 model({.layers = 4, .heads = 4, .width = 128, .vocab = 256, .max_seq = 128});
  lt::Engine engine(model, world.group(), {.strategy = lt::find_strategy(strategy)}, lion(3e-4, 0.9f, 0.99f, 0.3f),
                    {.micro_batch = 4, .seq = 128});
  lt::TokenLoader data({tokens}, engine.batch_shape(), {.seed = 1337, .vocab = 256});

  lt::load(engine, checkpoints, world.group());
  data.seek(engine.samples_done());
  while (engine.steps_done() < steps) {
    const lt::StepResult result = engine.step(data.next());
    if (world.rank() == 0) std::printf("step %ld loss %.4f\n", engine.steps_done(), result.loss());
  }
  lt::save(engine, checkpoints, world.group());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: own_optimizer STRATEGY TOKENS CHECKPOINTS [STEPS]\n"), 2;
  return lt::run_program(argc, argv, [&](const lt::World& world) {
    return train(world, argv[1], argv[2], argv[3], argc > 4 ? std::atol(argv[4]) : 100);
  });
}
