// Caches timed algorithms between runs: one file per GPU model and cuBLASLt version, in $XDG_CACHE_HOME/libtrain or
// ~/.cache/libtrain. An unreadable or unwritable file counts as missing; nothing depends on it.
#pragma once

#include <cublasLt.h>

#include <map>
#include <optional>
#include <string>

namespace lt::kernels {

class AlgorithmFile {
 public:
  explicit AlgorithmFile(int device);
  // `problem` describes the product, without spaces.
  std::optional<cublasLtMatmulAlgo_t> find(const std::string& problem) const;
  void add(const std::string& problem, const cublasLtMatmulAlgo_t& algorithm);

 private:
  std::string path_;  // empty: no file
  std::map<std::string, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace lt::kernels
