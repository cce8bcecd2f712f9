// Loads a trained model and generates text with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/data/data.h"
#include "libtrain/nn/models.h"
#include "libtrain/tensor/shard_map.h"

namespace LT_API lt {

// A Generator throws UsageError for what is outside of these ranges.
struct SamplingOptions {
  Size tokens = 200;              // of each continuation; not negative
  double temperature = 1.0;       // from 0, which is greedy
  Size top_k = 0;                 // from 0, which is all
  double top_p = 1.0;             // [0, 1]; nucleus (Holtzman et al. 2020)
  double min_p = 0;               // [0, 1]; at least this likely, relative to the likeliest (Nguyen et al. 2024)
  double repetition_penalty = 1;  // above 0; of tokens in the prompt or the output (Keskar et al. 2019); 1: none
  std::uint64_t seed = 1337;
  Size continuations = 1;  // of each prompt; from 1
};

struct GenerationTiming {
  Size prefill_tokens = 0, decode_tokens = 0;
  double prefill_s = 0, decode_s = 0;
};

// How many of a text's last tokens are read where a model of `max_seq` positions generates the next one.
inline Size tokens_kept(Size tokens, Size max_seq) {
  return tokens <= max_seq ? tokens : max_seq < 2 ? 1 : max_seq / 2;
}

// Sequences that grow side by side, each with its own length. Row r is continuation r % options.continuations of prompt
// r / options.continuations. Its random numbers are a function of the seed and these two; its logits do not depend on
// the other rows where matrix products of several rows give each row the bits that it gets alone: on CUDA up to 8 rows.
// The keys and values of model.max_seq tokens of each row stay in memory, in the model's dtype. A text that leaves no
// room is cut from the left. If it passes max_seq, the window slides: its last half is read again.
// The model's parameters must be in place, and stay there unchanged: on CUDA the device may still read them after
// step() has returned, until the next step() or the destructor.
class Generator {
 public:
  using Tokens = std::vector<std::uint32_t>;

  // Throws UsageError for less than one row.
  Generator(nn::Transformer& model, Size rows, const SamplingOptions& options);
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Adds tokens to a row's text. Throws UsageError for one outside the model's vocabulary, or no such row.
  void append(Size row, const Tokens& tokens);
  // Picks the next token of each row that has not ended, and adds it to the row's text. A row without text begins with
  // token 0. Returns the tokens of all rows; those of ended rows mean nothing. On a meta device only memory is counted.
  // Throws NonFiniteError where a row that has not ended has no finite logit. After that only the destructor may be
  // called.
  const Tokens& step();
  // The row takes no part in later steps. Throws UsageError if there is no such row.
  void end(Size row);

  const GenerationTiming& timing() const;
  Size cache_bytes() const;
  // The memory of the passes, for display: its size, and the plans by name, with the shapes of the tokens.
  Size arena_bytes() const;
  std::vector<std::pair<std::string, Size>> pass_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Continues each prompt `options.continuations` times by at most options.tokens tokens. Calls `emit` with the row of a
// Generator and each token; a row ends where it returns false. Exceptions of `emit` pass through.
GenerationTiming generate(nn::Transformer& model, const std::vector<Generator::Tokens>& prompts,
                          const SamplingOptions& options, const std::function<bool(Size, std::uint32_t)>& emit);
// The same for one prompt, continued once.
GenerationTiming generate(nn::Transformer& model, const Generator::Tokens& prompt, const SamplingOptions& options,
                          const std::function<void(std::uint32_t)>& emit);

// The sample that training draws: 256 tokens at temperature 0.8.
std::vector<std::uint32_t> sample(nn::Transformer& model, const std::vector<std::uint32_t>& prompt, std::uint64_t seed);

// A model with the weights of a checkpoint. The path is a step's folder, a checkpoints folder or a run's folder, whose
// newest valid step is used.
struct LoadedModel {
  std::unique_ptr<nn::Transformer> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null if the checkpoint has none that this version reads
  std::string tokenizer_text;            // its tokenizer.json; empty if there is none
  std::string tokenizer_name;            // its place, in messages
  std::string tokenizer_problem;         // what is not supported of a tokenizer that the checkpoint has
  std::string tokenizer_hint;            // for errors of its absence: what a user can give
  Size step = 0, seq = 0;
  bool separates_documents = false;  // trained with data.documents=mask
  bool read_raw16 = false;           // trained with data.format=raw16
  std::string directory;
  std::vector<std::string> passed_over;  // invalid newer checkpoints, with reasons
};
struct LoadOptions {
  std::string weights = kMaster;  // or kAverage, for a run that keeps one
  Device device = kCpu;
  std::optional<DType> dtype = DType::f32;  // nullopt: train.dtype of the checkpoint's run; f32 where it is not known
  std::string base = {};                    // of adapters: where their base is now; empty: where it was
};

// Weights are converted block by block while they are read, so the model is in memory once. Throws DataError if there
// is no valid checkpoint, with the reason for each, or if it holds no transformer or a different one than it describes.
// Throws UsageError if its description is not that of a valid model, or if the device is missing.
LoadedModel load_model(const std::string& directory, const LoadOptions& options = {});

}  // namespace lt
