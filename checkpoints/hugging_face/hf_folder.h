// A folder in Hugging Face's format: config.json, weights in safetensors (one file, or several with an index), and
// optionally a tokenizer.json. Each rank reads only the ranges that it needs.
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

// True if the path is such a folder, that is, if it has a config.json. Throws DataError if config.json is a dangling
// link.
bool is_hf_folder(const std::string& path);
// Returns the model's description from config.json, complete and valid. Throws DataError.
nn::TransformerSpec read_hf_spec(const std::string& path);

class HfFolder {
 public:
  // Reads config.json and the headers of all files. Throws DataError unless they hold the model's tensors with the
  // right shapes, in f32, bf16 or f16. Throws DataError for any other tensor too, unless it is known to be derived from
  // the weights.
  explicit HfFolder(const std::string& path);
  HfFolder(const HfFolder&) = delete;
  HfFolder& operator=(const HfFolder&) = delete;

  const nn::TransformerSpec& spec() const { return spec_; }
  // The model's parameters, in the order of the format's tensors.
  std::vector<ParameterInfo> parameters() const;
  // The text of tokenizer.json; empty if there is none.
  std::string tokenizer() const;
  // The tokenizer's other files: contents by path in the folder.
  std::map<std::string, std::string> tokenizer_files() const;
  // Throws DataError, which names the first difference, if the folder's parameters differ from `parameters`.
  void require_parameters(const std::vector<ParameterInfo>& parameters) const;
  // Fills the ranges, which must be of masters, on the transfer's device. Converts the weights to the ranges' dtypes.
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
  // Elements [begin, end) of our parameter that lie in one Hugging Face tensor and in one range.
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
  std::unordered_map<std::string, Source> sources_;                             // by HfTensor::theirs
  std::unordered_map<std::string, std::vector<const HfTensor*>> by_parameter_;  // in the order of rows
};

}  // namespace lt::checkpoint
