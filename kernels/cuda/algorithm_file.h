// Caches timed algorithms between processes and between runs: one file per GPU model and cuBLASLt version, in
// $XDG_CACHE_HOME/libtrain or ~/.cache/libtrain, with a lock file next to it. An unreadable file counts as missing. A
// choice that cannot be written is known only to this process.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <ios>
#include <map>
#include <optional>
#include <string>

#include "io/descriptor.h"

namespace lt::kernels {

// An algorithm of cuBLASLt, with or without a workspace. With a workspace, cuBLASLt runs another kernel even if the
// algorithm needs none, and first clears part of the workspace. Some matmuls are faster with it, some without.
struct Algorithm {
  cublasLtMatmulAlgo_t words{};
  bool has_workspace = true;

  bool operator==(const Algorithm& other) const {
    return has_workspace == other.has_workspace && std::ranges::equal(words.data, other.words.data);
  }
};

class AlgorithmFile {
 public:
  explicit AlgorithmFile(int device);
  // `problem` describes the matmul, without spaces. Returns nullopt if the file has no algorithm for it.
  std::optional<Algorithm> find(const std::string& problem) const;
  // Returns false if there is no file or it could not be written.
  bool add(const std::string& problem, const Algorithm& algorithm);
  const std::string& path() const { return path_; }  // empty: no file
  // Throws DataError unless the file can be written.
  void require_writable() const;

  // The lock under which algorithms are timed. One process holds it at a time; processes that waited for it then find()
  // the algorithms that were added. Before a process asks for the lock, it waits for all streams of its device, for two
  // reasons: their work may depend on another process that waits for the lock, and a kernel's first launch, which loads
  // its code, may wait for them. After some seconds a process stops waiting and continues without the lock, because the
  // holder may be stopped.
  class Turn {
   public:
    explicit Turn(AlgorithmFile& file) : file_(file) { file_.begin_turn(); }
    ~Turn() { file_.end_turn(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    AlgorithmFile& file_;
  };

 private:
  void begin_turn();
  void end_turn();
  void take_lock();
  io::Descriptor open_to_append() const;
  void read();

  int device_;
  std::string path_;
  std::streamoff read_to_ = 0;
  int turns_ = 0;        // nested
  io::Descriptor lock_;  // held by flock(); the kernel releases it if the process dies
  std::map<std::string, Algorithm> algorithms_;
};

}  // namespace lt::kernels
