// How kernels on a GPU report ids outside their table. They skip such an id and record it in one 64-bit word of device
// memory, which holds the first one of all checks that share it. The host reads the word with the results of the work.
// CPU kernels expect ids that the operation has checked.
#pragma once

#include <cstdint>

#include "kernels/common.h"

namespace lt::kernels {

inline constexpr int kMostIdChecks = 15;
inline constexpr Size kMostIdPosition = (Size{1} << 28) - 1;

// An id outside its table. `check` tells whose ids they are, in [0, kMostIdChecks).
struct BadId {
  Size position;
  int check;
  std::int32_t id;
};

// The word of a bad id. It is not 0, which stands for none, and larger for lower positions (then checks, then ids), so
// an atomic maximum keeps the first. Positions above kMostIdPosition count as that.
constexpr std::uint64_t word_of(const BadId& bad) {
  const auto position = static_cast<std::uint64_t>(bad.position < kMostIdPosition ? bad.position : kMostIdPosition);
  return ~(position << 36 | static_cast<std::uint64_t>(bad.check) << 32 | static_cast<std::uint32_t>(bad.id));
}
constexpr BadId bad_id_of(std::uint64_t word) {
  return {static_cast<Size>(~word >> 36), static_cast<int>(~word >> 32 & 15), static_cast<std::int32_t>(~word)};
}

// Where a kernel records the bad ones of ids_M.
struct IdCheck {
  std::uint64_t* word = nullptr;  // device memory; null: bad ids are skipped and not recorded
  Size first = 0;                 // the position of ids_M[0]
  int check = 0;
  bool may_ignore = false;  // kIgnoredTarget is no bad id

  // The check of ids_M + count.
  IdCheck after(Size count) const { return {word, first + count, check, may_ignore}; }
};

// The word of a CUDA device for work that has none of its own, initially 0. It lives as long as the process.
std::uint64_t* word_of_device(CudaStream stream);

}  // namespace lt::kernels
