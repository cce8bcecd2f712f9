// Makes reductions on GPUs exchange smaller slices.
#pragma once

#include <utility>

#include "comm/backend.h"

namespace lt_test {

// During its lifetime what arrives takes at most so many bytes. Make it on all ranks.
class StagedAtMost {
 public:
  explicit StagedAtMost(lt::Size bytes) : before_(std::exchange(lt::GroupBackend::most_staged_bytes, bytes)) {}
  ~StagedAtMost() { lt::GroupBackend::most_staged_bytes = before_; }
  StagedAtMost(const StagedAtMost&) = delete;
  StagedAtMost& operator=(const StagedAtMost&) = delete;

 private:
  lt::Size before_;
};

}  // namespace lt_test
