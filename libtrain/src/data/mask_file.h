// Mask files: one bit a token, which says whether the token counts as a target. docs/data.md describes the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/data_file.h"

namespace lt::data {

class MaskFile {
 public:
  // Throws DataError for anything that is not a whole mask of `tokens` tokens.
  MaskFile(const std::string& path, Size tokens);

  // targets[i] = kIgnoredTarget where the bit of token begin + i is 0, for i in [0, count).
  void apply(Size begin, Size count, std::int32_t* targets) const;
  // Whether one of the tokens [begin, end) counts. Reads up to the first that does.
  bool counts_any(Size begin, Size end) const;
  std::uint64_t digest(std::uint64_t before) const { return file_.digest(before); }

 private:
  DataFile file_;
};

// The mask beside NAME.bin is NAME.mask. Returns nullopt for other names and where there is none. Throws
// DataError for a link to nothing.
std::optional<std::string> mask_beside(const std::string& token_file);

}  // namespace lt::data
