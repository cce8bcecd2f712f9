// Loads a trained model and generates text with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/data/data.h"
#include "libtrain/nn/models.h"
#include "libtrain/tensor/shard_map.h"

namespace lt {

struct SamplingOptions {
  Size tokens = 200;
  double temperature = 1.0;  // 0: greedy
  Size top_k = 0;            // 0: all
  double top_p = 1.0;        // nucleus (Holtzman et al. 2020)
  std::uint64_t seed = 1337;
};

struct GenerationTiming {
  Size prefill_tokens = 0, decode_tokens = 0;
  double prefill_s = 0, decode_s = 0;
};

// Continues `prompt` by options.tokens tokens and calls `emit` with each. The model's parameters must be in place. A
// prompt that leaves no room within max_seq is cut from the left. If generation passes max_seq, the window slides: the
// last half of the context is read again. An empty prompt starts from token 0.
// The prompt's tokens must be below the model's vocabulary; otherwise the behaviour is undefined. temperature and top_k
// must not be negative, and top_p must be in [0, 1]. None of this is checked. Exceptions of `emit` pass through.
GenerationTiming generate(nn::Transformer& model, const std::vector<std::uint32_t>& prompt,
                          const SamplingOptions& options, const std::function<void(std::uint32_t)>& emit);

// The sample that training draws: 256 tokens at temperature 0.8.
std::vector<std::uint32_t> sample(nn::Transformer& model, const std::vector<std::uint32_t>& prompt, std::uint64_t seed);

// A model with the weights of a checkpoint. The path is a step's folder, a checkpoints folder or a run's folder, whose
// newest valid step is used.
struct LoadedModel {
  std::unique_ptr<nn::Transformer> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null if the checkpoint has none that this version reads
  Size step = 0, seq = 0;
  std::string directory;
  std::vector<std::string> passed_over;  // invalid newer checkpoints, with reasons
};
struct LoadOptions {
  std::string weights = kMaster;  // or kAverage, for a run that keeps one
  Device device = kCpu;
  std::optional<DType> dtype = DType::f32;  // nullopt: train.dtype of the checkpoint's run; f32 where it is not known
};

// Weights are converted block by block while they are read, so the model is in memory once. Throws DataError if there
// is no valid checkpoint, with the reason for each, or if it holds no transformer or a different one than it describes.
// Throws UsageError if its description is not that of a valid model, or if the device is missing.
LoadedModel load_model(const std::string& directory, const LoadOptions& options = {});

}  // namespace lt
