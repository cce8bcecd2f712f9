// Trains a user-defined model with a trainer: run folder, log, checkpoints, signals and resuming work as in `ltrain
// train`.
//   mpirun -n 2 own_model zero3 runs/adder 400
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "adder.h"

namespace {

int train(const lt::World& world, const char* strategy, const char* folder, lt::Size steps) {
  const lt::TrainerOptions options{
      .parallel = {.strategy = lt::find_strategy(strategy), .recompute = lt::Recompute::full},
      .train = {.steps = steps, .micro_batch = 240 / world.size(), .device = lt::DeviceType::cpu},
      .optim = {.lr = 3e-3, .weight_decay = 0.01},
      .checkpoint = {.every = 50},
      .record = {.tensorboard = true},
      .run = {.dir = folder}};
  const lt::Plan plan = lt::plan([] { return std::make_unique<adder::Adder>(); }, options, world.size());
  if (world.rank() == 0) std::printf("planned peak %ld bytes a rank\n", plan.peak_bytes);
  adder::Adder model;
  lt::Trainer trainer(world, model, options);
  adder::Pairs data(trainer.batch_shape());
  return static_cast<int>(trainer.train(data, [&](const lt::TrainedStep& step) {
    std::string& least = trainer.state()["least"];  // kept in the checkpoints
    if (least.empty() || step.loss < std::stod(least)) least = std::to_string(step.loss);
    if (world.rank() == 0 && step.step == step.steps) {
      std::printf("last loss %.4f, least %s\n", step.loss, least.c_str());
    }
  }));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: own_model ddp|zero1|zero2|zero3 FOLDER [STEPS]\n"), 2;
  return lt::run_program(argc, argv, [&](const lt::World& world) {
    return train(world, argv[1], argv[2], argc > 3 ? std::atol(argv[3]) : 400);
  });
}
