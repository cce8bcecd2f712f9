// Trains a user-defined model with an engine. The program has its own training loop, and decides what to print and
// save.
//   mpirun -n 2 own_loop zero3
#include <cstdio>
#include <cstdlib>
#include <string>

#include "adder.h"

namespace {

void train(const lt::World& world, const std::string& strategy, lt::Size steps) {
  const lt::Size global_batch = 240;
  adder::Adder model;
  const lt::Device device = world.device();  // a GPU if there is one
  lt::Engine engine(
      model, world.group(device), {.strategy = lt::find_strategy(strategy), .recompute = lt::Recompute::full},
      lt::AdamW{.lr = 3e-3f, .weight_decay = 0.01f}, {.micro_batch = global_batch / world.size(), .device = device});
  const lt::BatchShape shape = engine.batch_shape();
  for (lt::Size step = 1; step <= steps; ++step) {
    const lt::Size first = engine.samples_done() + shape.rank * shape.samples();
    const lt::StepResult result = engine.step(adder::make_batch(first, shape.samples()));
    if (world.rank() == 0 && (step == 1 || step % 50 == 0)) std::printf("step %ld loss %.4f\n", step, result.loss());
  }
}

}  // namespace

int main(int argc, char** argv) {
  return lt::run_program(argc, argv, [&](const lt::World& world) {
    train(world, argc > 1 ? argv[1] : "zero3", argc > 2 ? std::atol(argv[2]) : 400);
    return 0;
  });
}
