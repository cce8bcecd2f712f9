// The shortest program that trains a transformer under any strategy.
//   mpirun -n 2 train_min zero3 data/train.bin checkpoints
#include <cstdio>
#include <cstdlib>

#include "libtrain/libtrain.h"

int main(int argc, char** argv) try {
  const lt::World world = lt::init(argc, argv);
  if (argc < 4) return std::fprintf(stderr, "usage: train_min ddp|zero1|zero2|zero3 TOKENS CHECKPOINTS [STEPS]\n"), 2;

  lt::nn::Gpt2 model({.layers = 4, .heads = 4, .width = 128, .vocab = 256, .max_seq = 128});
  lt::Engine engine(model, world.group(), {.strategy = lt::find_strategy(argv[1]), .recompute = lt::Recompute::selective},
                    lt::AdamW{.lr = 1e-3f}, {.micro_batch = 4, .seq = 128});
  lt::TokenLoader data({argv[2]}, engine.batch_shape(), {.seed = 1337, .vocab = 256});

  // Goes on from the newest valid checkpoint, whatever strategy and rank count wrote it.
  lt::load(engine, argv[3], world.group());
  data.seek(engine.samples_done());
  const lt::Size steps = argc > 4 ? std::atol(argv[4]) : 100;
  while (engine.steps_done() < steps) {
    const lt::StepResult result = engine.step(data.next());
    if (world.rank() == 0) std::printf("step %ld loss %.4f norm %.3f\n", engine.steps_done(), result.loss(), result.norm());
  }
  lt::save(engine, argv[3], world.group());
  return 0;
} catch (const lt::Error& error) {
  std::fprintf(stderr, "error: [%s] %s\n", error.part().c_str(), error.what());
  return static_cast<int>(error.code());
}
