// Reads a checkpoint's adapters, and either adds them to weights or writes PEFT's files.
#include "checkpoints/hugging_face/hf_adapters.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoints/format/files.h"
#include "checkpoints/format/read_ranges.h"
#include "checkpoints/hugging_face/safetensors.h"

namespace lt::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// Rows [begin, begin + rows) of an adapter's parameter.
std::vector<float> adapter_rows(const AdapterSource& from, const std::string& parameter, Size begin, Size rows,
                                Size columns) {
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  within(from.step, [&] {
    Transfer on_host;
    read_ranges(from.step, from.manifest,
                {{parameter, from.kinds.at(parameter), begin * columns, (begin + rows) * columns, values.data()}},
                on_host);
  });
  return values;
}

std::vector<float> a_of(const AdapterSource& from, const HfTensor& tensor) {
  return adapter_rows(from, tensor.lora_a(), tensor.lora_a_begin, from.lora.rank, tensor.columns());
}
std::vector<float> b_of(const AdapterSource& from, const HfTensor& tensor) {
  return adapter_rows(from, tensor.lora_b(), tensor.lora_b_begin, tensor.rows, from.lora.rank);
}

std::string config_text(const AdapterSource& from, bool transposed, const std::string& base) {
  const double alpha = from.lora.alpha;
  Json config;
  config["peft_type"] = "LORA";
  config["task_type"] = "CAUSAL_LM";
  config["base_model_name_or_path"] = base.empty() ? Json() : Json(base);
  config["r"] = from.lora.rank;
  config["lora_alpha"] = alpha == std::floor(alpha) && alpha < 1e15 ? Json(static_cast<Size>(alpha)) : Json(alpha);
  config["lora_dropout"] = 0.0;
  config["bias"] = "none";
  config["target_modules"] = from.lora.targets;
  config["fan_in_fan_out"] = transposed;
  config["inference_mode"] = true;
  return config.dump(2) + "\n";
}

}  // namespace

void add_adapter(const AdapterSource& from, const HfTensor& tensor, std::vector<float>& weight) {
  const std::vector<float> a = a_of(from, tensor), b = b_of(from, tensor);
  const Size rank = from.lora.rank, columns = tensor.columns();
  const auto scale = static_cast<float>(from.lora.alpha / static_cast<double>(rank));
  for (Size row = 0; row < tensor.rows; ++row) {
    float* const w = weight.data() + row * columns;
    for (Size k = 0; k < rank; ++k) {
      const float factor = scale * b[static_cast<std::size_t>(row * rank + k)];
      const float* const a_row = a.data() + k * columns;
      for (Size column = 0; column < columns; ++column) w[column] += factor * a_row[column];
    }
  }
}

void write_adapters(const AdapterSource& from, const std::vector<HfTensor>& tensors,
                    const std::filesystem::path& folder, DType dtype, const std::string& base) {
  std::vector<ParameterInfo> announced;
  bool transposed = false;
  for (const HfTensor& tensor : tensors) {
    if (!tensor.is_adapted()) continue;
    transposed = transposed || tensor.transposed;
    const std::string module = "base_model.model." + tensor.theirs.substr(0, tensor.theirs.rfind('.'));
    announced.push_back({module + ".lora_A.weight", {from.lora.rank, tensor.columns()}});
    announced.push_back({module + ".lora_B.weight", {tensor.rows, from.lora.rank}});
  }
  write_durably(folder / "adapter_config.json", config_text(from, transposed, base));
  SafetensorsWriter writer(folder / "adapter_model.safetensors", announced, dtype);
  for (const HfTensor& tensor : tensors) {
    if (!tensor.is_adapted()) continue;
    writer.write(a_of(from, tensor));
    writer.write(b_of(from, tensor));
  }
  writer.finish();
}

}  // namespace lt::checkpoint
