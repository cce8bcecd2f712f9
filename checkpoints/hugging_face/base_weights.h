// The base weights to which adapters are added. A run with model.lora saves only its adapters; its checkpoints name
// their base and hold a digest of it. The base is a folder in Hugging Face's format, a checkpoint, or the initial
// weights of a seed.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoints/format/manifest.h"
#include "checkpoints/format/transfer.h"
#include "checkpoints/hugging_face/hf_folder.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/nn/models.h"

namespace lt::checkpoint {

// Returns the base folder that `path` refers to: `path` itself if it is in Hugging Face's format, else its newest valid
// step. Returns nullopt if it is neither or if `path` is empty.
std::optional<std::string> base_at(const std::string& path);
// Like base_at(), but throws DataError, which names the path, if there is no base.
std::string find_base(const std::string& path);
// Returns the base of the adapters in the checkpoint `step`; empty means the initial weights. If `given` is not empty
// and does not contain the folder state.base, the base is find_base(given). Otherwise the base is the first that exists
// of: state.base_beside, relative to the folder of the checkpoints; state.base; `given`. Throws DataError if there is
// none.
std::string find_base(const RunState& state, const std::filesystem::path& step, const std::string& given);

class BaseWeights {
 public:
  // Opens find_base(folder) or, if `folder` is empty, uses the initial weights of `seed`. Throws DataError, which names
  // the folder, if it does not hold `model` without adapters.
  BaseWeights(const std::string& folder, const nn::TransformerSpec& model, std::uint64_t seed);

  // Fills the ranges, which must be of masters, on the transfer's device. Converts the weights to the ranges' dtypes.
  void read(const std::vector<StateRange>& ranges, Transfer& transfer) const;
  // Returns 16 hex digits that depend on the names, the shapes and the first and last 512 values of every parameter.
  // Equal weights in different formats have the same digest.
  std::string digest() const;
  // Throws DataError, which names the folder, if the digest differs from state.base_digest.
  void require_digest(const RunState& state) const;

 private:
  std::string folder_;
  std::uint64_t seed_;
  std::unique_ptr<nn::Transformer> model_;  // without adapters; has no tensors
  std::unique_ptr<HfFolder> hf_;
  std::optional<Manifest> manifest_;
};

// Opens the base of a checkpoint's adapters, find_base(state, step, given), and checks its digest. Returns nullopt for
// a model without adapters; throws DataError if `given` names a base for such a model.
std::optional<BaseWeights> base_of(const RunState& state, const std::filesystem::path& step,
                                   const nn::TransformerSpec& model, const std::string& given);

}  // namespace lt::checkpoint
