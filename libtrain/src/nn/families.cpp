// The table of model families.
#include "nn/families.h"

#include <vector>

namespace lt::nn {

const std::vector<const ModelFamily*>& families() {
  static const std::vector<const ModelFamily*> table = {&kGpt2, &kLlama, &kMistral, &kQwen2, &kQwen3};
  return table;
}

}  // namespace lt::nn
