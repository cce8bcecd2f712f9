// Algorithms that were chosen by their time, kept between runs: a file for each GPU model and version of cuBLASLt in
// $XDG_CACHE_HOME/libtrain, or ~/.cache/libtrain. A file that cannot be read or written is none; nothing depends on it.
#pragma once

#include <cublasLt.h>

#include <map>
#include <optional>
#include <string>

namespace lt::kernels {

class AlgorithmFile {
 public:
  explicit AlgorithmFile(int device);
  // `problem` is the product's description, without spaces.
  std::optional<cublasLtMatmulAlgo_t> find(const std::string& problem) const;
  void add(const std::string& problem, const cublasLtMatmulAlgo_t& algorithm);

 private:
  std::string path_;  // empty: there is none
  std::map<std::string, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace lt::kernels
