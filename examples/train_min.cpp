// The shortest program that trains a transformer under any strategy.
//   mpirun -n 2 train_min zero3 data/train.bin checkpoints
#include <cstdio>
#include <cstdlib>

#include "libtrain/libtrain.h"

int train(const lt::World& world, const char* strategy, const char* tokens, const char* checkpoints, lt::Size steps) {
  lt::nn::Gpt2 model({.layers = 4, .heads = 4, .width = 128, .vocab = 256, .max_seq = 128});
  const lt::Device device = world.device();  // a GPU if there is one
  const bool on_gpu = device.type == lt::DeviceType::cuda;
  lt::Engine engine(model, world.group(device),
                    {.strategy = lt::find_strategy(strategy), .recompute = lt::Recompute::selective},
                    lt::AdamW{.lr = 1e-3f},
                    {.micro_batch = 4,
                     .seq = 128,
                     .dtype = on_gpu ? lt::DType::bf16 : lt::DType::f32,
                     .device = device,
                     .cuda_graph = on_gpu});
  lt::TokenLoader data({tokens}, engine.batch_shape(), {.seed = 1337, .vocab = 256});

  // Resumes from the newest valid checkpoint, whatever strategy and rank count wrote it.
  lt::load(engine, checkpoints, world.group());
  data.seek(engine.samples_done());
  while (engine.steps_done() < steps) {
    const lt::StepResult result = engine.step(data.next());
    if (world.rank() == 0)
      std::printf("step %ld loss %.4f norm %.3f\n", engine.steps_done(), result.loss(), result.norm());
  }
  lt::save(engine, checkpoints, world.group());
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: train_min ddp|zero1|zero2|zero3 TOKENS CHECKPOINTS [STEPS]\n"), 2;
  return lt::run_program(argc, argv, [&](const lt::World& world) {
    return train(world, argv[1], argv[2], argv[3], argc > 4 ? std::atol(argv[4]) : 100);
  });
}
