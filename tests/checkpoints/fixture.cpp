// Makes the state of a small model for the checkpoint tests.
#include "checkpoints/fixture.h"

#include "checkpoints/format/find.h"
#include "checkpoints/repair.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "libtrain/error.h"
#include "libtrain/kernels/random.h"

namespace lt_test {
using namespace lt;

std::vector<ParameterInfo> small_model() {
  return {{"embedding.wte.weight", {11, 5}},
          {"blocks.0.norm1.weight", {5}},
          {"blocks.0.attention.qkv.weight", {13, 5}},
          {"scale", {}},
          {"nothing", {0, 5}},
          {"head.norm.bias", {8}}};
}

std::vector<ParameterInfo> larger_model() {
  auto model = small_model();
  model.insert(model.begin() + 2, {"blocks.0.ffn.up.weight", {1100, 1099}});
  return model;
}

float value_of(const std::string& parameter, const std::string& kind, Size index, Size step) {
  const std::uint64_t number = kind == "m" ? 1 : kind == "v" ? 2 : 0;
  const auto key = derive_key(3 * static_cast<std::uint64_t>(step) + number, parameter);
  return bf16(uniform_from(philox_word(key, static_cast<std::uint64_t>(index))) - 0.5f);
}

ShardMap shards_of(const std::vector<ParameterInfo>& parameters, int rank, int size, DType v_dtype) {
  ShardMap shards{parameters, {}, {}, {}};
  Size total = 0;
  for (const auto& parameter : parameters) total += parameter.shape.elements();
  const Size part = (total + size - 1) / size;
  for (const char* const kind : {kMaster, "m", "v"}) {
    const DType dtype = std::string(kind) == "v" ? v_dtype : DType::f32;
    shards.kinds.emplace_back(kind, dtype);
    Size first = 0;  // index of the parameter's first element in the flat sequence
    for (const auto& [name, shape] : parameters) {
      const Size begin = std::max(first, rank * part) - first;
      const Size end = std::min(first + shape.elements(), (rank + 1) * part) - first;
      first += shape.elements();
      if (begin >= end) continue;
      for (auto* const ranges : {&shards.owned, &shards.needed}) {
        ranges->push_back({name, kind, begin, end, Tensor::empty({end - begin}, dtype)});
      }
    }
  }
  set_step(shards, 1);
  return shards;
}

void set_step(const ShardMap& shards, Size step) {
  for (const StateRange& range : shards.owned) {
    std::vector<float> values;
    for (Size i = range.begin; i < range.end; ++i) values.push_back(value_of(range.parameter, range.kind, i, step));
    copy(range.values, Tensor::from(values, range.values.shape()));
  }
  forget(shards);
}

void forget(const ShardMap& shards) {
  for (const StateRange& range : shards.needed) {
    const std::vector<float> values(static_cast<std::size_t>(range.end - range.begin),
                                    std::numeric_limits<float>::quiet_NaN());
    copy(range.values, Tensor::from(values, range.values.shape()));
  }
}

checkpoint::RunState state_at(Size step) {
  checkpoint::RunState state;
  state.run = kRun;
  state.step = step;
  state.samples = 48 * step;
  state.seed = 0xfedcba9876543210ull;
  state.data_tokens = 123456789;
  state.loss_scale = 65536.0 / 3.0;
  state.config = "[model]\npreset = \"gpt-tiny\"  # \"quoted\", tab\t and \xc3\xa9\n";
  state.config_hash = "0123456789abcdef";
  state.model = R"({"family":"gpt2","layers":1,"norm_eps":1e-05,"tie_embeddings":true})";
  state.tokenizer = "{\"kind\": \"byte\"}\n";
  return state;
}

Size wrong_elements(const ShardMap& shards, Size step) {
  Size wrong = 0;
  for (const StateRange& range : shards.needed) {
    const Tensor in_f32 = Tensor::empty(range.values.shape(), DType::f32);
    copy(in_f32, range.values);
    const std::vector<float> values = in_f32.to_vector<float>();
    for (Size i = range.begin; i < range.end; ++i) {
      const float expected = value_of(range.parameter, range.kind, i, step);
      const float found = values[static_cast<std::size_t>(i - range.begin)];
      wrong += std::bit_cast<std::uint32_t>(found) != std::bit_cast<std::uint32_t>(expected);
    }
  }
  return wrong;
}

std::string load_error(const fs::path& folder, const ShardMap& shards) {
  try {
    checkpoint::load(folder.string(), shards);
  } catch (const DataError& e) {
    return e.what();
  }
  return "none";
}

fs::path save_alone(const fs::path& directory, Size step, const ShardMap& shards, int keep) {
  return checkpoint::save(directory.string(), shards, state_at(step), Group(), {.keep = keep});
}

fs::path save_by(const std::string& run, const fs::path& directory, Size step, int keep) {
  checkpoint::RunState state = state_at(step);
  state.run = run;
  const TempFolder apart;  // a run cannot save beside another run's checkpoints
  const bool alone = !checkpoint::find_other(directory.string(), {state.run});
  const fs::path to = alone ? directory : apart.path();
  const ShardMap shards = shards_of(small_model(), 0, 1, DType::f32);
  const fs::path folder = checkpoint::save(to.string(), shards, state, Group(), {.keep = keep});
  if (alone) return folder;
  fs::create_directories(directory);
  fs::copy(folder, directory / folder.filename());
  return directory / folder.filename();
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lt_test
