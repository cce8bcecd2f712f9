// Caches timed algorithms between processes and between runs: one file per GPU model and cuBLASLt version, in
// $XDG_CACHE_HOME/libtrain or ~/.cache/libtrain, with a lock beside it. An unreadable file counts as missing. A
// choice that cannot be written is known to this process only.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <ios>
#include <map>
#include <optional>
#include <string>

#include "io/descriptor.h"

namespace lt::kernels {

// An algorithm of cuBLASLt, and whether it gets a workspace. Given one, cuBLASLt runs another kernel even for an
// algorithm that needs none, and clears a part of the workspace first. Some products are faster with it, some without.
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
  // `problem` describes the product, without spaces.
  std::optional<Algorithm> find(const std::string& problem) const;
  // False: there is no file, or it could not be written.
  bool add(const std::string& problem, const Algorithm& algorithm);
  const std::string& path() const { return path_; }  // empty: no file
  // Throws DataError unless the file can be written.
  void require_writable() const;

  // Algorithms are timed in a turn. One process has it at a time; those that wait for it then find() what was added
  // meanwhile. Before it asks for the turn, a process waits for all streams of its device: their work may need another
  // process that wants the turn first, and a kernel's first launch, when its code is loaded, may wait for them. Waiting
  // for the turn ends after some seconds without it, because the process that has it may be stopped.
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
