// Loads trained models, and generates text with transformers.
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

// Settings of text generation. The constructor of Generator throws UsageError for a value outside its range.
struct SamplingOptions {
  Size tokens = 200;              // per continuation; at least 0
  double temperature = 1.0;       // at least 0; 0 always takes the likeliest token
  Size top_k = 0;                 // at least 0; 0 keeps all tokens
  double top_p = 1.0;             // [0, 1]; nucleus sampling (Holtzman et al. 2020)
  double min_p = 0;               // [0, 1]; minimum probability, relative to the likeliest token (Nguyen et al. 2024)
  double repetition_penalty = 1;  // above 0; for tokens in the prompt or the output (Keskar et al. 2019); 1 disables it
  std::uint64_t seed = 1337;
  Size continuations = 1;  // per prompt; at least 1
};

// Tokens that passed through the model, and wall-clock seconds. A step that prefills any row adds all its time to
// prefill_s.
struct GenerationTiming {
  Size prefill_tokens = 0, decode_tokens = 0;
  double prefill_s = 0, decode_s = 0;
};

// Returns how many tokens of a text with `tokens` tokens a model with `max_seq` positions keeps as context: all of them
// if they fit, else the last max_seq / 2 (at least 1).
inline Size tokens_kept(Size tokens, Size max_seq) {
  return tokens <= max_seq ? tokens : max_seq < 2 ? 1 : max_seq / 2;
}

// Generates tokens for several sequences (rows) at once. Each row has its own length. Row r is continuation
// r % options.continuations of prompt r / options.continuations. Its random numbers depend only on options.seed and
// these two indices. On CUDA with up to 8 rows, the other rows do not change the bits of its logits. With more rows,
// and on the CPU, the last bits may differ.
// Each row has a cache for the keys and values of model.max_seq tokens, in the model's dtype. If a text
// outgrows max_seq, only its last tokens_kept() tokens stay, and the next step prefills them again.
// The caller must bind the model's parameters first, and must not change them while the Generator exists: on CUDA the
// device may still read them after step() has returned.
class Generator {
 public:
  using Tokens = std::vector<std::uint32_t>;

  // The model must outlive the Generator. Throws UsageError for less than one row, and for `options` out of range.
  Generator(nn::Transformer& model, Size rows, const SamplingOptions& options);
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Appends tokens to a row's text. Throws UsageError if a token is outside the model's vocabulary, or if the row does
  // not exist.
  void append(Size row, const Tokens& tokens);
  // Samples the next token of each row that has not ended, and appends it to the row's text. An empty text first gets
  // token 0. Returns one token per row, valid until the next step(); the token of an ended row is meaningless. On a
  // meta device it only counts memory. Throws NonFiniteError if a row that has not ended has no finite logit; the
  // caller must then destroy the Generator.
  const Tokens& step();
  // Excludes the row from later steps. Throws UsageError if the row does not exist.
  void end(Size row);

  const GenerationTiming& timing() const;
  // Bytes of the key and value caches of all rows.
  Size cache_bytes() const;
  // Bytes of the arena: one preallocated block that holds all temporary memory of a pass through the model.
  Size arena_bytes() const;
  // Bytes of the arena that each kind of pass needs: ("prefill" or "decode", bytes), one entry per shape of its tokens.
  std::vector<std::pair<std::string, Size>> pass_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Continues each prompt options.continuations times, by at most options.tokens tokens. Calls emit(row, token) for each
// token, with rows numbered as in Generator; a row ends when emit() returns false. Throws the errors of Generator and
// of emit().
GenerationTiming generate(nn::Transformer& model, const std::vector<Generator::Tokens>& prompts,
                          const SamplingOptions& options, const std::function<bool(Size, std::uint32_t)>& emit);
// Like generate() above, but for one prompt. options.continuations should be 1, because emit() does not get the row.
GenerationTiming generate(nn::Transformer& model, const Generator::Tokens& prompt, const SamplingOptions& options,
                          const std::function<void(std::uint32_t)>& emit);

// Returns the sample that training shows (train.sample_every): 256 tokens at temperature 0.8.
std::vector<std::uint32_t> sample(nn::Transformer& model, const std::vector<std::uint32_t>& prompt, std::uint64_t seed);

// A model with the weights of a checkpoint.
struct LoadedModel {
  std::unique_ptr<nn::Transformer> model;
  std::unique_ptr<Tokenizer> tokenizer;  // null if the checkpoint has none, or an unsupported one
  std::string tokenizer_text;            // its tokenizer.json; empty if there is none
  std::string tokenizer_name;            // where it was found, for messages
  std::string tokenizer_problem;         // the unsupported feature of the checkpoint's tokenizer; else empty
  std::string tokenizer_hint;            // for errors about a missing tokenizer: suggests an option to pass
  Size step = 0, seq = 0;                // steps done; tokens per sample in training
  bool separates_documents = false;      // trained with data.documents=mask
  bool read_raw16 = false;               // trained with data.format=raw16
  std::string directory;                 // the loaded step's folder
  std::vector<std::string> passed_over;  // newer checkpoints that are invalid, with the reasons
};
struct LoadOptions {
  std::string weights = kMaster;  // or kAverage, if the run keeps an average (optim.ema)
  Device device = kCpu;
  std::optional<DType> dtype = DType::f32;  // nullopt: the compute dtype of the run, or f32 if it is unknown
  std::string base = {};                    // for adapters: the folder of their base; empty: the one that training used
};

// Makes the transformer that a checkpoint describes and loads its weights, its tokenizer and the settings of its run:
// to generate text or to evaluate, as `ltrain sample` and `ltrain eval` do. To load a model that is no transformer, or
// one that the program has made, or a folder in the Hugging Face format, use load_weights().
// Loads the newest valid step of `directory`, which is a step's folder, a checkpoints folder or a run's folder.
// Converts weights block by block while it reads them, so memory holds the model once. Throws DataError if no
// checkpoint is valid (with the reason for each), and if the checkpoint holds no transformer, contradicts its
// description, or lacks the requested weights or the base of its adapters. Throws UsageError if its description is not
// a valid model, or if the device is missing.
LoadedModel load_model(const std::string& directory, const LoadOptions& options = {});

// Loads the weights of a model that the program has made, of any class, for inference without an engine: allocates
// parameters, which collect no gradients, and buffers on `device` in `dtype` (f32, bf16 or f16), and fills the
// parameters. `path` is a step's folder, a checkpoints folder or a run's folder, whose newest valid step is read; for
// an nn::Transformer it may be a folder in the Hugging Face format. `weights` is kMaster, or kAverage if the run keeps
// an average. Adapters also load their base, as in load_model(). Returns the folder that was read. Reports on standard
// error why it skipped a step. It is no collective: each process loads a whole model of its own. Throws DataError if
// there is nothing to load, if a parameter is missing or has another shape (it names both), if a transformer differs
// from the saved one in more than adapters, dropout and, with rotary positions, max_seq, rope_base and rope_scaling,
// and if the checkpoint lacks `weights`. Throws UsageError for another dtype, and if the device is missing.
std::string load_weights(nn::Model& model, const std::string& path, Device device = kCpu, DType dtype = DType::f32,
                         const std::string& weights = kMaster);

}  // namespace lt
