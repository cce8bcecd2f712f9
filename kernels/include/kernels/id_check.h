// How kernels on a GPU report ids outside their table. They skip such an id and record it in a 64-bit word of device
// memory. The word holds the first bad id of all checks that share it. The host reads the word with the results of the
// work. CPU kernels require that the operation has checked the ids.
#pragma once

#include <cstdint>

#include "kernels/common.h"

namespace lt::kernels {

inline constexpr int kMostIdChecks = 15;
inline constexpr Size kMostIdPosition = (Size{1} << 28) - 1;

// An id outside its table. `check` identifies the check that found it, in [0, kMostIdChecks).
struct BadId {
  Size position;
  int check;
  std::int32_t id;
};

// Returns the word of a bad id. It is never 0, which means that there is no bad id. It is larger for lower positions
// (then checks, then ids), so an atomic maximum keeps the first bad id. Larger positions are stored as kMostIdPosition.
constexpr std::uint64_t word_of(const BadId& bad) {
  const auto position = static_cast<std::uint64_t>(bad.position < kMostIdPosition ? bad.position : kMostIdPosition);
  return ~(position << 36 | static_cast<std::uint64_t>(bad.check) << 32 | static_cast<std::uint32_t>(bad.id));
}
constexpr BadId bad_id_of(std::uint64_t word) {
  return {static_cast<Size>(~word >> 36), static_cast<int>(~word >> 32 & 15), static_cast<std::int32_t>(~word)};
}

// Where a kernel records bad ids of ids_M.
struct IdCheck {
  std::uint64_t* word = nullptr;  // device memory; null: bad ids are skipped and not recorded
  Size first = 0;                 // the position of ids_M[0]
  int check = 0;
  bool may_ignore = false;  // true: kIgnoredTarget is not a bad id

  // Returns the check of ids_M + count.
  IdCheck after(Size count) const { return {word, first + count, check, may_ignore}; }
};

// Returns the word of a CUDA device for work that has no word of its own. It is initially 0 and lives as long as the
// process.
std::uint64_t* word_of_device(CudaStream stream);

}  // namespace lt::kernels
