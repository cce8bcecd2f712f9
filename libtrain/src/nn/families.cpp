// The table of families.
#include "nn/families.h"

#include <vector>

#include "libtrain/error.h"

namespace lt::nn {

const std::vector<const ModelFamily*>& families() {
  static const std::vector<const ModelFamily*> table = {&kGpt2, &kLlama, &kMistral, &kQwen3};
  return table;
}

const ModelFamily& find_family(std::string_view name) {
  std::string names;
  for (const ModelFamily* family : families()) {
    if (family->name == name) return *family;
    names += (names.empty() ? "" : ", ") + std::string(family->name);
  }
  throw UsageError("config", "model.family: expected one of " + names + ", got \"" + std::string(name) + "\"",
                   "`ltrain plan --model.preset=NAME` prints the shape of a preset");
}

}  // namespace lt::nn
