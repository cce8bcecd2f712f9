// The weights beneath adapters. A run with model.lora saves its adapters alone; its checkpoints name their base and
// hold a digest of it. The base is a folder in Hugging Face's format, a checkpoint, or the initial weights of a seed.
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

// The folder that `path` means as a base: itself in Hugging Face's format, else its newest valid step. Nullopt if it is
// neither, or empty.
std::optional<std::string> base_at(const std::string& path);
// The same. Throws DataError that names the path if it is neither.
std::string find_base(const std::string& path);
// The base of the adapters that the checkpoint in `step` holds; empty: the initial weights. `given` says where it is
// now, unless the folder that the checkpoint names lies in it, or it is empty. Then it is that folder; if that is gone,
// the one at the same place relative to the checkpoint; then `given`. Throws DataError if there is none.
std::string find_base(const RunState& state, const std::filesystem::path& step, const std::string& given);

class BaseWeights {
 public:
  // Opens find_base(folder); if it is empty, the initial weights of `seed`. Throws DataError that names the folder
  // unless it holds `model`, whose adapters do not count.
  BaseWeights(const std::string& folder, const nn::TransformerSpec& model, std::uint64_t seed);

  // Fills the ranges, of masters, on the transfer's device, converted to their dtypes.
  void read(const std::vector<StateRange>& ranges, Transfer& transfer) const;
  // 16 hex digits from names, shapes and the first and last 512 values of every parameter. Equal weights in another
  // format have the same.
  std::string digest() const;
  // Throws DataError that names the folder unless the digest is the one that `state` holds.
  void require_digest(const RunState& state) const;

 private:
  std::string folder_;
  std::uint64_t seed_;
  std::unique_ptr<nn::Transformer> model_;  // without adapters; has no tensors
  std::unique_ptr<HfFolder> hf_;
  std::optional<Manifest> manifest_;
};

// Opens the base of a checkpoint's adapters, find_base(state, step, given), and checks its digest. Nullopt for a model
// without adapters; throws DataError if a base is given for one.
std::optional<BaseWeights> base_of(const RunState& state, const std::filesystem::path& step,
                                   const nn::TransformerSpec& model, const std::string& given);

}  // namespace lt::checkpoint
