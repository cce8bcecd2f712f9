// Loads the weights of a trained model for inference, without an engine, and adds two numbers with them.
//   own_program train --train.micro_batch=240 --train.steps=400 --optim.lr=0.003 --run.dir=runs/sums
//   inference runs/sums 17 25
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "adder.h"
#include "libtrain/generate/generate.h"

namespace {

int add(const char* run, int a, int b) {
  adder::Adder model;
  lt::load_weights(model, run);  // a run, a folder of checkpoints, or one step
  const auto numbers = lt::Tensor::from(std::vector<std::int32_t>{a, b}, {1, 2});
  // Without a tape, operations record nothing.
  lt::Tensor x = model.pair.forward(numbers);
  for (const adder::Mixture* block : model.blocks) x = block->forward(x);
  const std::vector<float> shares = lt::ops::softmax(model.classifier->linear(x)).to_vector<float>();
  const auto best = std::max_element(shares.begin(), shares.end());
  std::printf("%d + %d = %ld modulo %ld (%.0f %%)\n", a, b, static_cast<long>(best - shares.begin()), adder::kModulus,
              100.0 * static_cast<double>(*best));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: inference RUN A B\n"), 2;
  return lt::run_program(argc, argv,
                         [&](const lt::World&) { return add(argv[1], std::atoi(argv[2]), std::atoi(argv[3])); });
}
