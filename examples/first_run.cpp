// Trains a small GPT-2 on data/train.bin. If killed and started again, it continues from its newest checkpoint.
#include <cstdio>

#include "libtrain/libtrain.h"

int main(int argc, char** argv) {
  return lt::run_program(argc, argv, [](const lt::World& world) {
    lt::nn::Gpt2 model({.layers = 4, .heads = 4, .width = 128, .vocab = 256, .max_seq = 128});
    lt::Trainer trainer(world, model,
                        {.data = {.train = {"data/train.bin"}},
                         .parallel = {.strategy = lt::Strategy::zero3, .recompute = lt::Recompute::full},
                         .train = {.steps = 100, .micro_batch = 4},  // on GPUs where there are any
                         .optim = {.lr = 1e-3, .warmup = 10},
                         .checkpoint = {.every = 20},
                         .run = {.dir = "runs/program"}});
    const lt::ExitCode code = trainer.train([&](const lt::TrainedStep& step) {  // after each step, on every rank
      if (world.rank() == 0 && step.step == step.steps) std::printf("last loss %.4f\n", step.loss);
    });
    return static_cast<int>(code);
  });
}
