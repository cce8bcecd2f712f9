// Writes the input of hf_check.py. For each model of hf_cases(), OUT/<name>/hf is the export, and
// OUT/<name>/ours.safetensors has the same parameters under this library's names.
#include <cstdio>

#include "checkpoints/hf_models.h"
#include "checkpoints/hugging_face/safetensors.h"
#include "libtrain/checkpoints/checkpoint.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s OUT\n", argv[0]);
    return 2;
  }
  for (const lt_test::HfCase& item : lt_test::hf_cases()) {
    const std::filesystem::path out = std::filesystem::path(argv[1]) / item.name;
    lt::checkpoint::export_hf(lt_test::save_case(item, out / "checkpoints"), out / "hf");
    lt::checkpoint::SafetensorsWriter ours(out / "ours.safetensors", item.parameters);
    for (const lt::ParameterInfo& parameter : item.parameters) {
      std::vector<float> values;
      for (lt::Size i = 0; i < parameter.shape.elements(); ++i) values.push_back(lt_test::hf_value(parameter, i));
      ours.write(values);
    }
    ours.finish();
  }
}
