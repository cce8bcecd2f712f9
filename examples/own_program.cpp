// A program for a user-defined model, with the commands, keys, files and exit codes of `ltrain`.
//   own_program plan --model.experts=8 --train.micro_batch=120
//   mpirun -n 2 own_program train --model.experts=8 --train.micro_batch=120 --train.steps=400 --optim.lr=0.003
#include <memory>

#include "adder.h"
#include "libtrain/launch/cli.h"

namespace {

struct PairsOptions {
  lt::Size seed = 7;
};

}  // namespace

int main(int argc, char** argv) {
  using adder::Shape;
  const lt::ModelRow row = lt::model_row<Shape, PairsOptions>(
      "adder",
      {{"blocks", &Shape::blocks, "mixtures, one after another", 1},
       {"width", &Shape::width, "numbers that stand for a pair, an even number", 2},
       {"experts", &Shape::experts, "experts of a mixture", 1},
       {"hidden", &Shape::hidden, "width of an expert", 1}},
      [](const Shape& shape) { return std::make_unique<adder::Adder>(shape); },
      {{"seed", &PairsOptions::seed, "seed of the numbers"}},  // the key batches.seed
      [](const Shape&, const PairsOptions& options, const lt::BatchShape& batch) {
        return std::make_unique<adder::Pairs>(batch, options.seed);
      });
  return lt::cli(argc, argv, {.rows = {row}});
}
