// A folder in Hugging Face's format: config.json, weights in safetensors (one file, or several with an index), and a
// tokenizer.json where there is one. Each rank reads only the ranges that it needs.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "checkpoints/format/transfer.h"
#include "checkpoints/hugging_face/hf_names.h"
#include "checkpoints/hugging_face/safetensors.h"
#include "libtrain/nn/transformer_spec.h"
#include "libtrain/tensor/shard_map.h"

namespace lt::checkpoint {

// Whether the path is such a folder, by its config.json. Throws DataError if that is a link to nothing.
bool is_hf_folder(const std::string& path);
// The model of such a folder, complete and valid. Throws DataError.
nn::TransformerSpec read_hf_spec(const std::string& path);

class HfFolder {
 public:
  // Reads config.json and the headers of all files. Throws DataError unless they hold the model's tensors, with its
  // shapes and in f32, bf16 or f16, and no others but those that are known to be derived.
  explicit HfFolder(const std::string& path);
  HfFolder(const HfFolder&) = delete;
  HfFolder& operator=(const HfFolder&) = delete;

  const nn::TransformerSpec& spec() const { return spec_; }
  // In the order of the format's tensors.
  std::vector<ParameterInfo> parameters() const;
  // The text of tokenizer.json; empty if there is none.
  std::string tokenizer() const;
  // The files of the tokenizer beside it: bytes by path in the folder.
  std::map<std::string, std::string> tokenizer_files() const;
  // Throws DataError, which names the first difference, unless the folder's parameters are these.
  void require_parameters(const std::vector<ParameterInfo>& parameters) const;
  // Fills the ranges, of masters, with the weights, on the transfer's device, converted to their dtypes.
  void read(const std::vector<StateRange>& ranges, Transfer& transfer) const;

 private:
  struct Source {
    const SafetensorsReader* file;
    const SafetensorsEntry* entry;
  };

  bool has(const std::string& name) const;
  bool has_unread_index() const;
  void open_files();
  void match_tensors();
  // Elements [begin, end) of our parameter that lie in one of their tensors and in one range.
  struct Piece {
    const HfTensor* tensor;
    Source source;
    Size begin, end;
    const StateRange* range;

    std::byte* place_of(Size element) const;
    // Copies `count` values on the host, at most kBlockBytes, to the elements from `at` on.
    void put(Size at, Size count, const void* values, Transfer& transfer) const;
  };
  std::vector<Piece> pieces_of(const std::vector<StateRange>& ranges) const;
  void read_transposed(const Piece& piece, Transfer& transfer) const;
  std::vector<std::byte> transposed_rows(const HfTensor& tensor, Size first, Size count, DType dtype) const;

  std::filesystem::path path_;
  nn::TransformerSpec spec_;
  std::vector<SafetensorsReader> files_;
  std::vector<HfTensor> tensors_;
  std::unordered_map<std::string, Source> sources_;                             // by the name of HfTensor::theirs
  std::unordered_map<std::string, std::vector<const HfTensor*>> by_parameter_;  // in the order of rows
};

}  // namespace lt::checkpoint
